# shellcheck shell=bash
# sequences.sh - the server that random statements are run on, and running them
#
# ./dev random and ./dev test include this, after common.sh.

# settings_for_sequences SEED [LEVEL]: of the server, with wal_level LEVEL
#
# Autovacuum would make a difference to what is where in a table.  A small cache is
# faster to search for what is dropped.
settings_for_sequences() {
    cat <<'END'
autovacuum = off
fsync = off
shared_buffers = 32MB
max_wal_size = 4GB
checkpoint_timeout = 1h
max_prepared_transactions = 10
max_connections = 40
max_locks_per_transaction = 1000
log_min_messages = warning
log_min_error_statement = panic
END
    # there are other ways through the code when WAL is not written
    if [[ -n ${2:-} ]]; then
        printf 'wal_level = %s\n' "$2"
    elif (($1 % 2 == 0)); then
        printf '%s\n' 'wal_level = minimal' 'max_wal_senders = 0'
    fi
}

# sequences LOG OPTION...: run them on the server that has been started, with the
# options of random.pl; what it says is shown, but for the count, and kept in LOG
sequences() {
    local log=$1
    shift
    as_user perl "$BUILD/dev.d/random.pl" --dir "$PGHOST" --port "$PGPORT" --user "$PGUSER" --files "$WORK/files" \
        --jobs "$(nproc)" "$@" | tee "$log" | sed -u '/ passed, .* skipped$/d'
}

# What the server's log must not have.  A process that is killed with signal 9 was
# killed by the test.
# shellcheck disable=SC2034
TROUBLE_BUT_KILLED='WARNING:.*(leak|not closed|still referenced)|TRAP:|PANIC|terminated by signal ([0-8]|1[0-9])\b'
