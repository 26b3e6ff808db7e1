#!/bin/bash
# common.sh - what the commands share: set-up, build, private server, clean-up
#
# A command sources this file and then calls, in this order:
#   find_postgres, need_..., install_missing   what must be there
#   make_work                                  temporary directory, clean-up at exit
#   build, stage                               a private copy of the extension
#   start_server DATADIR <settings             a private server; psql etc. reach it
# Results: PG_CONFIG, BINDIR, MAJOR; WORK, BUILD; PGHOST, PGPORT, PGUSER.

set -euo pipefail

: "${ROOT:?started without ./dev}"
COMMAND=${0##*/}
OLDEST=15                       # oldest PostgreSQL that batchheap works with

# No server but ours, no settings but ours.
for name in $(compgen -v PG); do
    [[ $name == PG_CONFIG ]] || unset "$name"
done
unset name MAKEFLAGS MAKELEVEL MAKEFILES DESTDIR TEMP_CONFIG EXTRA_REGRESS_OPTS CDPATH
unset LANG LANGUAGE PROVE_TESTS PROVE_FLAGS PERL5LIB
export LC_ALL=C.UTF-8
umask 022

#
# Messages
#

# what happens now, with the seconds since the start
say() { printf '[%4d s] %s\n' "$SECONDS" "$*" >&2; }

warn() { printf '%s: %s\n' "$COMMAND" "$*" >&2; }

die() { warn "$@"; exit 1; }

usage_error() { printf '%s: %s; ./dev %s --help tells the options\n' "$COMMAND" "$1" "$COMMAND" >&2; exit 2; }

# the comment at the top of the command's file, less its first line, is its help
print_help() { sed -n '1d; /^#/!q; s/^# \{0,1\}//p' "$0"; }

#
# Who does what: packages need root, PostgreSQL refuses to run as root
#

RUN_USER=                       # set when this is root: who runs servers and tests

if [[ $(id -u) == 0 ]]; then
    RUN_USER=nobody
    ! id -u postgres >/dev/null 2>&1 || RUN_USER=postgres
fi

as_user() {
    if [[ -n $RUN_USER ]]; then
        HOME=${WORK:-/} USER=$RUN_USER LOGNAME=$RUN_USER \
            setpriv --reuid="$RUN_USER" --regid="$(id -g "$RUN_USER")" --init-groups -- "$@"
    else
        "$@"
    fi
}

# sudo may ask for a password where there is someone to ask
SUDO=(sudo)
[[ -t 0 ]] || SUDO=(sudo -n)

as_root() {
    if [[ $(id -u) == 0 ]]; then
        "$@"
    else
        "${SUDO[@]}" "$@"
    fi
}

can_be_root() {
    [[ $(id -u) == 0 ]] || sudo -n true 2>/dev/null || { [[ -t 0 ]] && sudo -v; }
}

# Run a long command as a job in a process group of its own, so that a signal to
# this script ends it and all its children at once.
CHILD=
run() {
    local status=0
    set -m
    "$@" </dev/null &
    CHILD=$!
    set +m
    wait "$CHILD" || status=$?
    CHILD=
    return "$status"
}

#
# Packages
#

MISSING=()                      # what is missing, in words
PACKAGES=()                     # the packages that bring it
UNPACKAGED=()                   # what is missing and in no package
CLUSTER_CONF=                   # tells the server package to make no cluster
SERVICE_POLICY=                 # tells packages to start no service
UPDATED=                        # package lists are fresh

# need WHAT PACKAGE TEST...: note what is missing when TEST fails
need() {
    local what=$1 package=$2
    shift 2
    if "$@" >/dev/null 2>&1; then
        return 0
    elif [[ -n $package ]]; then
        MISSING+=("$what")
        PACKAGES+=("$package")
    else
        UNPACKAGED+=("$what")
    fi
}

has() { command -v "$1"; }
has_pgbouncer() { PATH=$PATH:/usr/sbin command -v pgbouncer; }
has_libc_headers() { printf '#include <stdio.h>\n' | "$(compiler)" -E -; }
has_perl_module() { perl -M"$1" -e 1; }
compiler() { local cc; cc=$("$PG_CONFIG" --cc); printf '%s' "${cc%% *}"; }

# one at a time, as two of our runs may want the same packages at once
apt() {
    as_root flock /var/lib/dpkg \
        env DEBIAN_FRONTEND=noninteractive apt-get -qq -o DPkg::Lock::Timeout=900 -o Dpkg::Use-Pty=0 "$@" </dev/null >&2
}

cannot_install() {
    warn "missing: $(printf '%s, ' "${MISSING[@]}" | sed 's/, $//')"
    if command -v apt-get >/dev/null; then
        warn "cannot install it: $1"
        ((${#PACKAGES[@]} == 0)) || warn "as root run: apt-get update && apt-get install ${PACKAGES[*]}"
    else
        warn "this system has no apt-get: install it by the system's own means"
    fi
    die "then start ./dev $COMMAND again (PG_CONFIG=/path/to/pg_config chooses a PostgreSQL)"
}

update_lists() {
    [[ -z $UPDATED ]] || return 0
    command -v apt-get >/dev/null || cannot_install "no apt-get"
    can_be_root || cannot_install "this needs root or sudo"
    say "updating the package lists"
    apt update || warn "apt-get update failed, trying with the lists that are there"
    UPDATED=yes
}

# what packages were told while they were installed is for no one else
forget_package_settings() {
    [[ -z $CLUSTER_CONF ]] || as_root rm -f "$CLUSTER_CONF"
    [[ -z $SERVICE_POLICY ]] || as_root rm -f "$SERVICE_POLICY"
    CLUSTER_CONF=
    SERVICE_POLICY=
}

# Install what need() found missing.  The server package would make and start a
# cluster of its own, and pgbouncer's a service; nobody asked for that, so they are
# told not to.
install_missing() {
    local status=0 what
    if ((${#UNPACKAGED[@]} > 0)); then
        for what in "${UNPACKAGED[@]}"; do
            warn "missing: $what; no package brings it: build and install it for that PostgreSQL"
        done
        exit 1
    fi
    ((${#MISSING[@]} > 0)) || return 0
    update_lists
    say "installing packages: ${PACKAGES[*]}"
    if [[ " ${PACKAGES[*]} " =~ " postgresql-"[0-9]+" " ]]; then
        CLUSTER_CONF=/etc/postgresql-common/createcluster.d/batchheap-$$.conf
        as_root mkdir -p "${CLUSTER_CONF%/*}"
        echo "create_main_cluster = false" | as_root tee "$CLUSTER_CONF" >/dev/null
    fi
    if [[ " ${PACKAGES[*]} " == *" pgbouncer "* && ! -e /usr/sbin/policy-rc.d ]]; then
        SERVICE_POLICY=/usr/sbin/policy-rc.d
        printf '%s\n' '#!/bin/sh' 'exit 101' | as_root tee "$SERVICE_POLICY" >/dev/null
        as_root chmod 755 "$SERVICE_POLICY"
    fi
    apt install -y --no-install-recommends "${PACKAGES[@]}" || status=$?
    # nor when the machine starts the next time
    [[ " ${PACKAGES[*]} " != *" pgbouncer "* ]] || as_root update-rc.d pgbouncer disable >&2 || true
    forget_package_settings
    ((status == 0)) || cannot_install "apt-get install failed"
    MISSING=()
    PACKAGES=()
    [[ $RUN_USER != nobody ]] || ! id -u postgres >/dev/null 2>&1 || RUN_USER=postgres
    hash -r
}

#
# PostgreSQL
#

has_headers() { [[ -f $("$1" --includedir-server)/postgres.h && -f $("$1" --pgxs) ]]; }
has_server() { [[ -x $("$1" --bindir)/postgres ]]; }

# major versions that lie in the Debian layout, newest first
debian_majors() {
    local dir
    for dir in /usr/lib/postgresql/*/bin; do
        [[ ! -x $dir/$1 ]] || basename "$(dirname "$dir")"
    done | sort -rn
}

# find_postgres [MAJOR]: set PG_CONFIG, installing a PostgreSQL where there is none
find_postgres() {
    local major=${1:-}
    if [[ -n $major ]]; then
        PG_CONFIG=/usr/lib/postgresql/$major/bin/pg_config
        if [[ ! -x $PG_CONFIG ]]; then
            [[ -z $(debian_majors postgres) ]] ||
                die "no PostgreSQL $major here ($PG_CONFIG is missing); installed: $(debian_majors pg_config | xargs)"
            PG_CONFIG=
        fi
    elif [[ -n ${PG_CONFIG:-} ]]; then
        PG_CONFIG=$(command -v -- "$PG_CONFIG") || die "PG_CONFIG names no program"
    else
        PG_CONFIG=$(installed_pg_config)
    fi
    if [[ -z $PG_CONFIG ]]; then
        MISSING=("PostgreSQL $OLDEST or newer, with its header files")
        major=$(debian_majors postgres | sed -n 1p)
        if [[ -z $major ]]; then
            command -v apt-get >/dev/null || cannot_install
            PACKAGES=(postgresql postgresql-server-dev-all)
            update_lists
            major=$(packaged_major)
            [[ -n $major ]] || cannot_install "apt knows no package postgresql"
            [[ ${1:-$major} == "$major" ]] || cannot_install "the packages have PostgreSQL $major, and $1 is wanted"
        fi
        PACKAGES=("postgresql-$major" "postgresql-server-dev-$major")
        ((major >= OLDEST)) || cannot_install "the packages have PostgreSQL $major"
        PACKAGES+=(make gcc libc6-dev)
        install_missing
        PG_CONFIG=/usr/lib/postgresql/$major/bin/pg_config
    fi
    export PG_CONFIG
    BINDIR=$("$PG_CONFIG" --bindir)
    MAJOR=$("$PG_CONFIG" --version | sed 's/^[^0-9]*\([0-9]*\).*/\1/')
    SHAREDIR=$("$PG_CONFIG" --sharedir)
    PKGLIBDIR=$("$PG_CONFIG" --pkglibdir)
    export PATH="$BINDIR:$PATH"
    ((MAJOR >= OLDEST)) || die "PostgreSQL $MAJOR ($PG_CONFIG) is too old: batchheap needs $OLDEST or newer"
}

# the major version that this system's packages have
packaged_major() { apt-cache depends postgresql | sed -n 's/^ *Depends: postgresql-\([0-9]*\)$/\1/p' | sed -n 1p; }

installed_pg_config() {
    local major path
    for major in $(debian_majors pg_config); do
        path=/usr/lib/postgresql/$major/bin/pg_config
        if ((major >= OLDEST)) && has_headers "$path"; then
            printf '%s' "$path"
            return
        fi
    done
    if path=$(command -v pg_config) && has_headers "$path"; then
        printf '%s' "$path"
    fi
}

# need_package WHAT PATTERN TEST...: like need, for a package of this very
# PostgreSQL; %s in PATTERN is its major version.
need_package() {
    local what=$1 package=
    # shellcheck disable=SC2059  # the pattern is ours
    [[ $BINDIR != /usr/lib/postgresql/"$MAJOR"/bin ]] || package=$(printf "$2" "$MAJOR")
    shift 2
    need "$what for $PG_CONFIG" "$package" "$@"
}

need_build() {
    need make make has make
    need_package "server header files" postgresql-server-dev-%s has_headers "$PG_CONFIG"
    need "a C compiler" gcc has "$(compiler)"
    need "the C library's header files" libc6-dev has_libc_headers
}

need_server() {
    need_package "a server" postgresql-%s has_server "$PG_CONFIG"
    need_package pg_visibility postgresql-%s test -f "$SHAREDIR/extension/pg_visibility.control"
}

#
# Temporary files and the end
#

WORK=                           # everything temporary, but for the data directories below
DATADIRS=()                     # data directories of our own servers
TEMPDIRS=()                     # what to remove at the end
UNSTAGE=                        # the extension lies in the system, take it out again
KEEP=                           # leave the temporary files

# usable DIR: can the one who runs the server make files below DIR?
usable() {
    [[ -d $1 && $1 == /* ]] || return 1
    if [[ -n $RUN_USER ]]; then
        as_user test -x "$1"
    else
        [[ -w $1 && -x $1 ]]
    fi
}

# temp_dir DIR: make a directory below DIR that is the running user's, and print it
temp_dir() {
    local dir
    dir=$(mktemp -d "$1/batchheap-XXXXXXXX")
    [[ -z $RUN_USER ]] || chown "$RUN_USER": "$dir"
    printf '%s' "$dir"
}

# The path holds a socket, whose name may have about 100 bytes, and make, which
# minds blanks.
make_work() {
    local base=${TMPDIR:-/var/tmp}
    [[ $base =~ ^/[A-Za-z0-9_./+-]{0,60}$ ]] && usable "$base" || base=/var/tmp
    usable "$base" || base=/tmp
    WORK=$(temp_dir "$base")
    TEMPDIRS+=("$WORK")
    export TMPDIR=$WORK
    BUILD=$WORK/build
    cd "$WORK"
}

# Last words of a command: it may define at_end STATUS, whose status is the script's.
finish() {
    local status=$1 dir
    trap - EXIT
    trap '' HUP INT TERM
    end_child
    stop_servers
    forget_package_settings
    [[ -z $UNSTAGE ]] || as_root make -s -C "$BUILD" PG_CONFIG="$PG_CONFIG" with_llvm=no uninstall >&2 ||
        warn "could not uninstall: make uninstall does it"
    cd /
    for dir in "${TEMPDIRS[@]}"; do
        if [[ -n $KEEP ]]; then
            warn "kept: $dir"
        else
            rm -rf --one-file-system -- "$dir"
        fi
    done
    if declare -F at_end >/dev/null; then
        at_end "$status" || status=$?
    fi
    exit "$status"
}

trap 'finish $?' EXIT
trap 'exit 129' HUP
trap 'exit 130' INT
trap 'exit 143' TERM

end_child() {
    local i
    [[ -n $CHILD ]] || return 0
    kill -TERM -- "-$CHILD" 2>/dev/null || return 0
    for ((i = 0; i < 100; i++)); do
        kill -0 -- "-$CHILD" 2>/dev/null || return 0
        sleep 0.1
    done
    kill -KILL -- "-$CHILD" 2>/dev/null || true
}

# Stop every server whose data lies in our temporary directories: ours, and what
# an interrupted test left.
stop_servers() {
    local file dir
    ((${#TEMPDIRS[@]} > 0)) || return 0
    while IFS= read -r -d '' file; do
        dir=${file%/*}
        stop_server "$dir" immediate || warn "could not stop the server in $dir"
    done < <(find "${TEMPDIRS[@]}" -name postmaster.pid -print0 2>/dev/null)
}

# stop_server DATADIR MODE; a stale pid file may name another process by now
stop_server() {
    local pid
    pid=$(sed -n 1p "$1/postmaster.pid" 2>/dev/null) || return 0
    if [[ -e /proc/self/cwd && $(readlink "/proc/$pid/cwd") != "$(realpath "$1")" ]]; then
        return 0
    fi
    as_user "$BINDIR/pg_ctl" -D "$1" -m "$2" -w -t 60 -s stop >&2
}

#
# The extension
#

# copy the tree without what git ignores to BUILD, so that the checkout stays clean
copy_tree() {
    mkdir "$BUILD"
    # Ownership does not matter for a mere listing.
    if git -c safe.directory='*' -C "$ROOT" rev-parse --git-dir >/dev/null 2>&1; then
        git -c safe.directory='*' -C "$ROOT" ls-files -z -co --exclude-standard |
            while IFS= read -r -d '' file; do
                if [[ -e $ROOT/$file || -L $ROOT/$file ]]; then printf '%s\0' "$file"; fi
            done |
            tar -C "$ROOT" --null --no-recursion -T - -cf -
    else
        tar -C "$ROOT" --exclude=./.git --exclude='*.o' --exclude='*.so' --exclude='*.bc' -cf - .
    fi | tar -C "$BUILD" --no-same-owner -xf -
    [[ -z $RUN_USER ]] || chown -R "$RUN_USER": "$BUILD"
}

# Bitcode, for inlining by the JIT compiler, needs clang and gives us nothing.  A
# warning is an error here, but not where users build with newer compilers.
make_ext() { as_user make -s -C "$BUILD" PG_CONFIG="$PG_CONFIG" COPT=-Werror with_llvm=no "$@"; }

build() {
    say "building for $("$PG_CONFIG" --version)"
    copy_tree
    run make_ext -j"$(nproc)" >&2
}

# Put the build where only a private server finds it; SETTINGS tells the server.
# A server that cannot be told gets it installed, until this script ends.
SETTINGS=
stage() {
    local stage=$WORK/stage
    if ((MAJOR >= 18)); then
        SETTINGS="extension_control_path = '$stage$SHAREDIR:\$system'
dynamic_library_path = '$stage$PKGLIBDIR:\$libdir'"
    elif as_user "$BINDIR/postgres" --describe-config | grep '^extension_destdir' >/dev/null; then
        SETTINGS="extension_destdir = '$stage'
dynamic_library_path = '$stage$PKGLIBDIR:\$libdir'"
    else
        stage_in_system
        return
    fi
    make_ext DESTDIR="$stage" install >/dev/null
}

stage_in_system() {
    local dir=$SHAREDIR/extension who=as_root
    [[ ! -w $dir ]] || who=
    if [[ -n $who ]] && ! can_be_root; then
        die "this PostgreSQL finds an extension only in $dir, and writing there needs root or sudo"
    fi
    exec 9<"$dir"
    flock -n 9 || { say "waiting for another run to give back $dir"; flock 9; }
    [[ ! -e $dir/batchheap.control ]] ||
        die "batchheap is installed in $dir, and this PostgreSQL finds it only there: take it out first (make uninstall)"
    UNSTAGE=yes
    $who make -s -C "$BUILD" PG_CONFIG="$PG_CONFIG" with_llvm=no install >&2
}

# start_server DATADIR: with the settings on standard input; reached by psql and all
# through the environment
SERVER_PROGRAM=                 # another program in place of postgres
start_server() {
    local data=$1 log=$WORK/server.log
    export PGHOST=$WORK/socket PGPORT=5999 PGUSER=postgres PGDATABASE=postgres
    as_user mkdir -p "$PGHOST"
    as_user "$BINDIR/initdb" -D "$data" -U postgres -A trust -N -E UTF8 --locale=C.UTF-8 >"$WORK/initdb.log" 2>&1 ||
        { cat "$WORK/initdb.log" >&2; return 1; }
    DATADIRS+=("$data")
    {
        printf '%s\n' "listen_addresses = ''" "unix_socket_directories = '$PGHOST'" "port = $PGPORT" "$SETTINGS"
        cat
    } | as_user tee -a "$data/postgresql.conf" >/dev/null
    as_user "$BINDIR/pg_ctl" -D "$data" -p "${SERVER_PROGRAM:-$BINDIR/postgres}" -l "$log" -w -t 120 -s start >&2 ||
        { warn "the server did not start; its log:"; tail -n 50 "$log" >&2; return 1; }
}

# psql without anyone's habits; stops at the first error
sql() { as_user "$BINDIR/psql" -X -q -At -v ON_ERROR_STOP=1 "$@"; }
