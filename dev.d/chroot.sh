#!/bin/bash
# chroot.sh - another PostgreSQL, in a chroot of the Debian release that has it (after common.sh)
#
#   needs_chroot MAJOR            is that PostgreSQL none of this machine's own?
#   become_root ARG...            start the command again as root, with these arguments
#   need_chroot                   note what is missing for the two below
#   make_chroot MAJOR             make it, if it is not there; sets CHROOT
#   run_in_chroot COMMAND ARG...  run ./dev COMMAND in it (after make_work)
#
# Chroots are kept for later runs, below the cache directory; remove one to have it
# made anew.  Nothing ever writes to a finished one, as a command runs in namespaces
# of its own: it sees the chroot read-only, the run's temporary directory as /tmp and
# /var/tmp, and no network, and all its processes and mounts end with it.

# shellcheck source=dev.d/source.sh
. "$ROOT/dev.d/source.sh"

CHROOT=

# That it cannot be had here is not the tests' fault; who wants to know looks for this.
no_chroot() { die "no chroot for PostgreSQL $WANT:" "$@"; }

# release MAJOR: the release, then others to take PostgreSQL alone from
release() {
    case $1 in
        15) echo bookworm ;;
        17) echo trixie ;;
        18) echo forky ;;
        19) echo sid experimental ;;
        *) return 1 ;;
    esac
}

needs_chroot() {
    local major=$1
    if [[ -x /usr/lib/postgresql/$major/bin/postgres ]]; then
        return 1
    fi
    if [[ -z $(debian_majors postgres) ]] && command -v apt-get >/dev/null; then
        update_lists
        [[ $(packaged_major) != "$major" ]] || return 1
    fi
    release "$major" >/dev/null || die "PostgreSQL $major is not installed here (installed: $(debian_majors postgres | xargs))," \
        "and no Debian release that I know has it (15, 17, 18 and 19 can be had)"
}

become_root() {
    local name keep=(ROOT="$ROOT")
    [[ $(id -u) != 0 ]] || return 0
    can_be_root || no_chroot "it needs root or sudo"
    for name in XDG_CACHE_HOME TMPDIR CI BATCHHEAP_LONG http_proxy https_proxy no_proxy; do
        [[ -z ${!name:-} ]] || keep+=("$name=${!name}")
    done
    exec "${SUDO[@]}" env "${keep[@]}" bash "$0" "$@"
}

need_chroot() {
    command -v apt-get >/dev/null || no_chroot "it needs a system with apt"
    need unshare util-linux has unshare
    need ip iproute2 has ip
    need debootstrap debootstrap has debootstrap
    need gpgv gpgv has gpgv
    need "the keys of Debian's archive" debian-archive-keyring test -f /usr/share/keyrings/debian-archive-keyring.gpg
}

#
# Inside
#

# enter ROOT USE TMP CMD...: run CMD in the chroot; USE is "test" or "install".  This
# runs in a shell and in namespaces of its own, and so uses nothing of this script.
enter() {
    set -euo pipefail
    local top=$1 use=$2 tmp=$3
    shift 3
    if [[ $use == test ]]; then
        ip link set lo up
        mount --bind "$top" "$top"
        mount -o remount,bind,ro "$top"
        mount --bind "$tmp" "$top/tmp"
        mount --bind "$tmp" "$top/var/tmp"
    fi
    mount -t proc proc "$top/proc"
    mount -t tmpfs -o mode=1777 tmpfs "$top/dev/shm"
    mount -t devpts -o newinstance,ptmxmode=0666,mode=620 devpts "$top/dev/pts"
    mount --bind "$top/dev/pts/ptmx" "$top/dev/ptmx"
    local name keep=()
    for name in CI BATCHHEAP_LONG http_proxy https_proxy no_proxy; do
        [[ -z ${!name:-} ]] || keep+=("$name=${!name}")
    done
    exec env -i PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin HOME=/root USER=root TERM=dumb \
        LC_ALL=C.UTF-8 DEBIAN_FRONTEND=noninteractive "${keep[@]}" chroot "$top" "$@"
}

NAMESPACES=(unshare --mount --propagation private --ipc --pid --fork --kill-child --mount-proc)

# in_chroot ROOT USE CMD...
in_chroot() {
    local top=$1 use=$2 net=()
    shift 2
    [[ $use != test ]] || net=(--net)
    "${NAMESPACES[@]}" "${net[@]}" bash -c "$(declare -f enter)"$'\nenter "$@"' enter "$top" "$use" "${WORK:-}/tmp" "$@"
}

#
# Making one
#

# mirror_of LABEL: where this machine has packages of that label (Debian,
# Debian-Security) from
mirror_of() {
    local uri
    uri=$(apt-get indextargets --format "\$(LABEL) \$(REPO_URI)" 'Created-By: Packages' |
        awk -v label="$1" '$1 == label && !found { print $2; found = 1 }')
    uri=${uri%/}
    # a list of mirrors, the best first
    [[ $uri != mirror+file:* ]] || uri=$(awk '/^http/ { print $1; exit }' "${uri#mirror+file:}")
    [[ $uri != http*://* ]] || printf '%s' "${uri%/}"
}

# step WHAT CMD...: the output matters only if it fails
step() {
    local what=$1 log=$WORK/step.log
    shift
    say "  $what"
    if ! run "$@" >"$log" 2>&1; then
        tail -n 30 "$log" >&2
        no_chroot "$what failed (what it said last is above); is there a network?"
    fi
}

packages_for() {
    printf '%s\n' make gcc libc6-dev libipc-run-perl libtap-parser-sourcehandler-pgtap-perl pgbouncer \
        "postgresql-$1" "postgresql-server-dev-$1"
}

make_chroot() {
    local major=$1 suites label new mirror security room
    read -ra suites < <(release "$major")
    CHROOT=$(cache_dir)/chroot-$major
    new=$CHROOT.new
    # what it was made for; a chroot that has anything else is made anew
    label="${suites[*]}: $(packages_for "$major" | xargs)"

    # whoever uses the chroot shares the lock; who makes it has it alone
    exec 8>"$CHROOT.lock"
    lock_chroot --shared
    chroot_is_ready || lock_chroot --exclusive
    if chroot_is_ready; then
        lock_chroot --shared
        say "the chroot with PostgreSQL $major is $CHROOT"
        return
    fi

    "${NAMESPACES[@]}" --net true || no_chroot "it needs the right to make mounts (in a container: a privileged one)"
    room=$(df -Pk -- "${CHROOT%/*}" | awk 'NR == 2 { print int($4 / 1024) }')
    ((room >= 2000)) || no_chroot "not enough room in ${CHROOT%/*}: $room MB free, it wants 2000 MB while it is made"
    mirror=$(mirror_of Debian)
    if [[ -z $mirror ]]; then
        update_lists
        mirror=$(mirror_of Debian)
        [[ -n $mirror ]] || no_chroot "apt's configuration names no http mirror of Debian"
    fi
    security=$(mirror_of Debian-Security)

    say "making a chroot of Debian ${suites[0]} with PostgreSQL $major in $CHROOT (once; 2 to 4 minutes, 750 MB)"
    rm -rf --one-file-system -- "$CHROOT" "$new"
    TEMPDIRS+=("$new")
    step "the base system" make_base "${suites[0]}" "$new" "$mirror"
    configure_chroot "$new" "$mirror" "$security" "$major" "${suites[@]}"
    step "the package lists" in_chroot "$new" install apt-get update
    step "a stand-in for clang" install_stand_in "$new" "$major"
    step "the packages" install_packages "$new" "$major"
    printf '%s\n' "$label" >"$new/.batchheap"
    mv -T -- "$new" "$CHROOT"
    unset 'TEMPDIRS[-1]'
    lock_chroot --shared
}

lock_chroot() { flock --nonblock "$1" 8 || { say "waiting for other runs to be done with $CHROOT"; run flock "$1" 8; }; }

chroot_is_ready() { [[ -f $CHROOT/.batchheap && $(<"$CHROOT/.batchheap") == "$label" ]]; }

# An older debootstrap does not know the newest release.
make_base() {
    local suite=$1 dir=$2 mirror=$3 scripts=/usr/share/debootstrap/scripts proxy=
    [[ -e $scripts/$suite ]] && scripts+=/$suite || scripts+=/sid
    eval "$(apt-config shell proxy Acquire::http::Proxy)"
    [[ -z $proxy || $proxy == DIRECT ]] || export http_proxy=$proxy
    "${NAMESPACES[@]}" debootstrap --variant=minbase --force-check-gpg \
        --keyring=/usr/share/keyrings/debian-archive-keyring.gpg "$suite" "$dir" "$mirror" "$scripts"
}

configure_chroot() {
    local dir=$1 mirror=$2 security=$3 major=$4 suite proxy=
    shift 4
    # A mirror may lag behind with the releases to come, whose lists expire after a
    # week.  Their signatures are checked all the same.
    for suite; do
        case $suite in
            bookworm | trixie)
                printf '%s\n' "deb $mirror $suite main" "deb $mirror $suite-updates main"
                [[ -z $security ]] || printf '%s\n' "deb $security $suite-security main"
                ;;
            *) printf '%s\n' "deb [check-valid-until=no] $mirror $suite main" ;;
        esac
    done >"$dir/etc/apt/sources.list"
    rm -f "$dir"/etc/apt/sources.list.d/*
    shift
    # of any other release PostgreSQL alone
    for suite; do
        printf '%s\n' "Package: src:postgresql-$major src:postgresql-common" "Pin: release a=$suite" 'Pin-Priority: 900' ''
    done >"$dir/etc/apt/preferences.d/batchheap"
    eval "$(apt-config shell proxy Acquire::http::Proxy)"
    {
        printf '%s\n' 'APT::Install-Recommends "false";' 'APT::Update::Error-Mode "any";' \
            'Acquire::Languages "none";' 'Acquire::Retries "3";' 'Dpkg::Use-Pty "0";'
        [[ -z $proxy ]] || printf '%s\n' "Acquire::http::Proxy \"$proxy\";"
    } >"$dir/etc/apt/apt.conf.d/90batchheap"
    printf '%s\n' force-unsafe-io path-exclude=/usr/share/{doc,info,locale,man}/'*' >"$dir/etc/dpkg/dpkg.cfg.d/batchheap"
    # no server is started, and no cluster is made
    printf '%s\n' '#!/bin/sh' 'exit 101' >"$dir/usr/sbin/policy-rc.d"
    chmod 755 "$dir/usr/sbin/policy-rc.d"
    mkdir -p "$dir/etc/postgresql-common/createcluster.d"
    echo 'create_main_cluster = false' >"$dir/etc/postgresql-common/createcluster.d/batchheap.conf"
}

# The server's header files depend on clang and llvm, which are large and which we
# do without (with_llvm=no): an empty package says that it is them.
install_stand_in() {
    local top=$1 major=$2 package=batchheap-no-clang provides
    provides=$(in_chroot "$top" install apt-cache depends "postgresql-server-dev-$major" |
        sed -nE 's/^ *Depends: ((clang|llvm)-.*)$/\1/p' | sort -u | paste -sd,)
    [[ -n $provides ]] || return 0
    mkdir -p "$top/root/$package/DEBIAN"
    printf '%s\n' "Package: $package" "Version: 1" "Architecture: all" "Maintainer: nobody <nobody@localhost>" \
        "Provides: ${provides//,/, }" "Description: stands in for packages that batchheap does without" \
        >"$top/root/$package/DEBIAN/control"
    in_chroot "$top" install dpkg-deb --build "/root/$package" "/root/$package.deb" &&
        in_chroot "$top" install dpkg --install "/root/$package.deb" &&
        rm -r "${top:?}/root/$package" "$top/root/$package.deb"
}

# The stand-alone systemd-tmpfiles spares us all of systemd.
install_packages() {
    local top=$1 major=$2 packages
    mapfile -t packages < <(packages_for "$major")
    packages+=(systemd-standalone-tmpfiles)
    # not every release has it
    ! in_chroot "$top" install apt-cache show "postgresql-$major-pgtap" || packages+=("postgresql-$major-pgtap")
    in_chroot "$top" install apt-get install -y "${packages[@]}" && in_chroot "$top" install apt-get clean
}

#
# Using it
#

# The tree goes along as a copy, in the run's temporary directory.
run_in_chroot() {
    mkdir -m 1777 "$WORK/tmp"
    # shellcheck disable=SC2034  # copy_tree copies to it
    BUILD=$WORK/tmp/batchheap
    copy_tree
    say "going on in the chroot"
    in_chroot "$CHROOT" test bash /var/tmp/batchheap/dev "$@" </dev/null
}
