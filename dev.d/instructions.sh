#!/bin/bash
# instructions.sh - count the instructions that loads take (for dev.d/bench)
#
# A backend without a server around it (postgres --single) runs statements under
# valgrind, which counts what happens within a function of the server.  The kernel's
# work is not counted.

# integer columns, and rows enough to be counted
INSTRUCTION_SHAPES=(1:20000 4:20000 8:10000 32:8000 100:4000)

# calls FUNCTION STATEMENT...: run the statements, print the instructions of each
# call of FUNCTION
calls() {
    local function=$1 dir=$WORK/valgrind i
    shift
    rm -rf -- "$dir"
    as_user mkdir "$dir"
    printf '%s;\n' "$@" >"$WORK/statements"     # one a line
    as_user valgrind --tool=callgrind --vgdb=no --log-file="$dir/log" --callgrind-out-file="$dir/out" \
        --collect-atstart=no --toggle-collect="$function" --dump-after="$function" \
        "$BINDIR/postgres" --single -D "$WORK/data" postgres <"$WORK/statements" >"$dir/answers" 2>&1 ||
        { tail -n 20 "$dir/log" "$dir/answers" >&2; return 1; }
    for ((i = 1; i <= $#; i++)); do
        [[ ! -s $dir/out.$i ]] || sed -n 's/^totals: *//p' "$dir/out.$i"
    done
}

# CREATE TABLE AS warms up, then loads N rows, then 2N rows; print what a row takes
count_rows() {
    local am=$1 n=$2 rows=$3 list=$4
    calls ExecCreateTableAs \
        "CREATE TABLE copy0 USING $am AS SELECT $list FROM src${n}_1" \
        "CREATE TABLE copy1 USING $am AS SELECT $list FROM src${n}_1" \
        "CREATE TABLE copy2 USING $am AS SELECT $list FROM src${n}_2" \
        "DROP TABLE copy0, copy1, copy2" |
        awk -v rows="$rows" '{ n[NR] = $1 } END { print (n[3] - n[2]) / rows }'
}

# Of some equal calls the first warms up, and now and then one has to split a page of
# an index or the like.
typical() { sed 1d | sort -n | sed -n 5p; }

count_load() {
    local am=$1 rows=$2 loads=() i
    for i in {1..10}; do
        loads+=("CREATE TABLE copy$i USING $am AS SELECT * FROM src4_1 LIMIT $rows")
    done
    calls ExecCreateTableAs "${loads[@]}" "DROP TABLE $(seq -s ', ' -f 'copy%.0f' 10)" | typical
}

count_insert() {
    local inserts=() i
    for i in {1..10}; do
        inserts+=("INSERT INTO single_$1 VALUES ($i, 2, 3, 4)")
    done
    calls PortalRun "${inserts[@]}" | typical
}

# compare WHAT COUNT ARGUMENT...: a row of the table
compare() {
    local what=$1 count=$2
    shift 2
    say "counting: $what"
    run "$count" heap "$@" >"$WORK/heap" || die "counting failed"
    run "$count" batchheap "$@" >"$WORK/batchheap" || die "counting failed"
    awk -v what="$what" '{ n[NR] = $1 } END {
        printf "| %s | %.0f | %.0f | %.2f |\n", what, n[1], n[2], n[1] / n[2]
    }' "$WORK/heap" "$WORK/batchheap"
}

make_sources() {
    local shape n rows list i
    for shape in "${INSTRUCTION_SHAPES[@]}"; do
        n=${shape%:*} rows=${shape#*:}
        list=$(seq -s ', ' -f 'i AS c%.0f' "$n")
        for i in 1 2; do
            sql -c "CREATE TABLE src${n}_$i AS SELECT $list FROM generate_series(1, $((rows * i))) AS i" \
                -c "VACUUM (FREEZE) src${n}_$i"
        done
    done
    sql -c 'CREATE TABLE single_heap (a int, b int, c int, d int) USING heap' \
        -c 'CREATE TABLE single_batchheap (a int, b int, c int, d int) USING batchheap'
}

instructions_table() {
    local shape n rows list
    cat <<END
# Instructions of loads into heap and into batchheap

$("$PG_CONFIG" --version).  Counted by valgrind, without the kernel's.  The ratio is heap/batchheap.

| | heap | batchheap | ratio |
|---|--:|--:|--:|
END
    # the two kinds of slot, as in BenchCases.pm
    for shape in "${INSTRUCTION_SHAPES[@]}"; do
        n=${shape%:*} rows=${shape#*:}
        list=$(seq -s ', ' -f 'c%.0f' "$n" -1 1)
        ((n > 1)) || list='c1 + 0 AS c1'
        compare "a row of $n integers, SELECT *" count_rows "$n" "$rows" '*'
        compare "a row of $n integers, column list" count_rows "$n" "$rows" "$list"
    done
    for rows in 1 10 100 1000; do
        compare "CREATE TABLE AS of $rows rows" count_load "$rows"
    done
    compare "INSERT of a row" count_insert
}

# count_instructions FILE: write the table to FILE, and show it
count_instructions() {
    say "starting a private server, to make the source tables"
    start_server "$WORK/data" <<END
autovacuum = off
jit = off
END
    sql -c 'CREATE EXTENSION batchheap'
    make_sources
    stop_server "$WORK/data" fast
    instructions_table >"$1"
    cat -- "$1"
}
