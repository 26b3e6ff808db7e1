#!/bin/bash
# source.sh - where PostgreSQL's own source comes from (after common.sh)
#
#   need_source [DIR]        note what is missing for that
#   cache_dir                print the directory that later runs find again
#   get_source DIR PART...   put those parts of the source below DIR; sets
#                            SOURCE_VERSION, like 15.18, and SOURCE_MAJOR
#
# The source is that of the installed PostgreSQL: a tree that is named by the user
# (never changed, only copied from), or the distribution's source package.  Of the
# package only the developers' own tarball is taken: the distribution's patches
# would make a server that installs its libraries into the system's PostgreSQL.

SOURCE_TREE=                    # --source: a tree that the user has
SOURCE_VERSION=
SOURCE_MAJOR=
ANY_MAJOR=                      # a tree of another major version will do

# source_tree DIR: check what the user names, early
source_tree() {
    SOURCE_TREE=$(realpath -e -- "$1" 2>/dev/null) || usage_error "--source: no directory $1"
    [[ -n $(tree_version "$SOURCE_TREE") ]] || usage_error "--source: $1 is no PostgreSQL source tree"
}

tree_version() { sed -n "s/^PACKAGE_VERSION='\(.*\)'\$/\1/p" "$1/configure" 2>/dev/null; }

need_source() {
    [[ -z $SOURCE_TREE ]] || return 0
    need tar tar has tar
    need bzip2 bzip2 has bzip2
    [[ -z $(cached_tarball) ]] || return 0
    command -v apt-get >/dev/null ||
        die "this system has no apt-get to fetch PostgreSQL's source with: name a source tree with --source"
}

# A place that the user who runs this can write to, and the one who runs servers
# can read.  Root's home is closed to the latter.
cache_dir() {
    local dir=${XDG_CACHE_HOME:-}
    if [[ $dir != /* ]]; then
        dir=${HOME:-}/.cache
        [[ -z $RUN_USER ]] || dir=/var/cache
    fi
    dir+=/batchheap
    mkdir -p -- "$dir" && printf '%s' "$dir"
}

# the tarball of this major version that is there already, the installed minor first
cached_tarball() {
    local dir version
    dir=$(cache_dir)/source
    version=$(server_version)
    mkdir -p -- "$dir"
    find "$dir" -maxdepth 1 -name "postgresql-${MAJOR}_*.orig.tar.*" | sort -rV |
        awk -v want="_$version.orig" '{ if (index($0, want)) { best = $0; exit } if (NR == 1) best = $0 }
                                      END { if (best != "") print best }'
}

server_version() { "$PG_CONFIG" --version | sed 's/^[^0-9]*\([0-9.a-z]*\).*/\1/'; }

# apt with state of its own, so that the system's package lists stay as they are
private_apt() {
    local command=$1
    shift
    "$command" -qq -o Dir::State::lists="$APT/lists" -o Dir::Cache="$APT/cache" \
        -o Dir::Etc::sourcelist="$APT/sources.list" -o Dir::Etc::sourceparts="$APT/sources.d" \
        -o APT::Sandbox::User="$(id -un)" -o APT::Update::Post-Invoke-Success= "$@" </dev/null
}

# Where the system has the server package from, asked for source packages instead.
# Apt tells the entry of its configuration, which is copied with all its options.
write_apt_sources() {
    local entry list file number
    mkdir -p "$APT/lists/partial" "$APT/cache/archives/partial" "$APT/sources.d" "$APT/new"
    touch "$APT/sources.list"
    apt-get indextargets --format "\$(SOURCESENTRY) \$(FILENAME)" 'Created-By: Packages' |
        while read -r entry list; do
            if /usr/lib/apt/apt-helper cat-file "$list" 2>/dev/null | grep -c "^Package: postgresql-$MAJOR\$" >/dev/null; then
                printf '%s\n' "$entry"
            fi
        done | sort -u >"$APT/entries"
    while IFS= read -r entry; do
        file=${entry%:*}
        number=${entry##*:}
        if [[ $file == *.sources ]]; then
            awk -v RS= -v number="$number" 'NR == number' "$file" | sed 's/^Types:.*/Types: deb-src/' \
                >"$APT/sources.d/$number-${file##*/}"
        else
            sed -n "${number}s/^[[:blank:]]*deb[[:blank:]]/deb-src /p" "$file" >>"$APT/sources.list"
        fi
    done <"$APT/entries"
    [[ -s $APT/entries ]] || die "no source of packages has postgresql-$MAJOR: name a source tree with --source"
}

# fetch_tarball: print the path of the tarball, downloaded if it is not there
fetch_tarball() {
    local dir version versions wanted file
    file=$(cached_tarball)
    if [[ -n $file ]]; then
        printf '%s' "$file"
        return
    fi
    dir=$(cache_dir)/source
    APT=$WORK/apt
    say "looking for the source package of PostgreSQL $MAJOR"
    write_apt_sources
    private_apt apt-get update >&2 || warn "not all lists of source packages could be had"
    wanted=$(server_version)
    versions=$(private_apt apt-cache showsrc "postgresql-$MAJOR" 2>/dev/null |
        awk -v name="postgresql-$MAJOR" '/^Package: / { ours = $2 == name } /^Version: / && ours { print $2 }' | sort -urV)
    [[ -n $versions ]] || die "no source package postgresql-$MAJOR to be had: name a source tree with --source"
    # the installed minor version first, then the others
    versions=$(awk -v want="$wanted" '{ v = $0; sub(/-[^-]*$/, "", v); sub(/^[0-9]*:/, "", v); print (v != want) "\t" $0 }' <<<"$versions" |
        sort -s -k1,1 | cut -f2)
    mkdir -p "$dir"
    for version in $versions; do
        (cd "$APT/new" && private_apt apt-get source --download-only --tar-only "postgresql-$MAJOR=$version") 2>>"$APT/errors" >&2 || continue
        file=$(find "$APT/new" -name '*.orig.tar.*' ! -name '*.asc' | sed -n 1p)
        [[ -n $file ]] || continue
        mv -- "$file" "$dir/"
        printf '%s' "$dir/${file##*/}"
        return
    done
    cat "$APT/errors" >&2
    die "no source package of PostgreSQL $MAJOR could be downloaded: name a source tree with --source"
}

# get_source DIR PART...: a part is a path in the source tree, "." for all of it
get_source() {
    local dir=$1 tarball part top
    shift
    mkdir -p "$dir"
    if [[ -n $SOURCE_TREE ]]; then
        say "copying from $SOURCE_TREE"
        tar -C "$SOURCE_TREE" --exclude='*.o' --exclude='*.so' --exclude='*.a' --exclude='*.bc' --exclude=./.git \
            --exclude=tmp_install --exclude=tmp_check --exclude=results --exclude=output_iso -cf - -- "$@" |
            tar -C "$dir" --no-same-owner -xf -
        SOURCE_VERSION=$(tree_version "$SOURCE_TREE")
    else
        tarball=$(fetch_tarball)
        say "unpacking ${tarball##*/}"
        top=${tarball##*/}
        top=${top%%.orig.tar.*}
        top=postgresql-${top#*_}
        top=${top//\~/}
        for part; do
            if [[ $part == . ]]; then printf '%s\n' "$top"; else printf '%s\n' "$top/$part"; fi
        done >"$WORK/parts"
        tar -C "$dir" --no-same-owner --strip-components=1 -T "$WORK/parts" -xf "$tarball"
        SOURCE_VERSION=${top#postgresql-}
    fi
    SOURCE_MAJOR=${SOURCE_VERSION%%[!0-9]*}
    [[ $SOURCE_MAJOR == "$MAJOR" || -n $ANY_MAJOR ]] ||
        die "the source is that of PostgreSQL $SOURCE_VERSION, and $PG_CONFIG is of $MAJOR"
    [[ $SOURCE_VERSION == "$(server_version)" ]] ||
        say "note: the source is that of $SOURCE_VERSION, the server is $(server_version)"
    [[ -z $RUN_USER ]] || chown -R "$RUN_USER": "$dir"
}
