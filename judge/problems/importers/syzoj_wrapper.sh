#!/bin/sh
# An output validator of the package format (INPUT ANSWER FEEDBACK/ < output; exit code 42 or 43) that asks a checker of
# SYZOJ: it finds `input`, `user_out` and `answer` where it runs, and prints from 0 to 100, and a sentence on stderr.
here=$(cd "${0%/*}" && pwd)
feedback=$(cd "$3" && pwd)
room=$(mktemp -d) && cp "$1" "$room/input" && cp "$2" "$room/answer" && cat > "$room/user_out" || exit 1
cd "$room" || exit 1
"$here/checker" < /dev/null > "$feedback/said.txt" 2> "$feedback/teammessage.txt" || {
    echo "the checker ended with exit code $?" >&2
    exit 1
}
outcome=$(awk 'NR == 1 {
    if ($1 !~ /^[0-9]+\.?[0-9]*$/ || $1 + 0 > 100) print "none"
    else printf "%.10g\n", $1 / 100
}' "$feedback/said.txt")
case $outcome in
    1) exit 42 ;;
    0) exit 43 ;;
    0.*) printf '%s\n' "$outcome" > "$feedback/score_multiplier.txt" && exit 42 ;;
esac
echo "the first line that the checker prints is not a number from 0 to 100" >&2
exit 1
