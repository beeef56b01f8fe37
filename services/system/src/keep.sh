# Keeps a program: $1 its log, $2... the program and its arguments. Says the program's process id, and its
# exit code when it has ended. When standard input ends, because whoever holds it has, the program is killed.
log=$1
shift
exec 3<&0
"$@" </dev/null >>"$log" 2>&1 3<&- &
program=$!
echo "$program"
(
    while read -r _; do :; done
    kill -s KILL "$program"
) <&3 >/dev/null 2>&1 3<&- &
watcher=$!
exec 3<&-
wait "$program"
echo "$?"
kill "$watcher" 2>/dev/null
