#!/bin/sh
# An output validator of the package format (INPUT ANSWER FEEDBACK/ < output; exit code 42 or 43) that asks a checker of
# SIO2: `checker INPUT OUTPUT ANSWER` prints OK or another word, then a sentence, then how many percent of the points.
# parts=yes: a part of the points is one; else it is wrong, as in a problem that is right or wrong.
parts=no
here=${0%/*}
feedback=${3%/}
cat > "$feedback/output.txt" || exit 1
"$here/checker" "$1" "$feedback/output.txt" "$2" > "$feedback/said.txt" || {
    echo "the checker ended with exit code $?" >&2
    exit 1
}
word= said= percent=
{
    IFS= read -r word
    IFS= read -r said
    IFS= read -r percent
} < "$feedback/said.txt"
printf '%s\n' "$said" > "$feedback/teammessage.txt"
[ -n "$word" ] || {
    echo "the checker prints nothing; expected OK or WRONG" >&2
    exit 1
}
[ "$word" = OK ] || exit 43
case $percent in
    "" | 100 | 100.0 | 100.00) exit 42 ;;
esac
[ $parts = yes ] || exit 43
part=$(awk -v x="$percent" 'BEGIN {
    if (x ~ /^[0-9]+(\.[0-9]+)?$/ && x + 0 >= 100) print "all"
    else if (x ~ /^[0-9]+(\.[0-9]+)?$/ && x + 0 > 0) printf "%.6f\n", x / 100
    else print "none"
}')
case $part in
    all) exit 42 ;;
    none) exit 43 ;;
esac
printf '%s\n' "$part" > "$feedback/score_multiplier.txt"
exit 42
