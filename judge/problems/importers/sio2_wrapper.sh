#!/bin/sh
# An output validator of the package format (INPUT ANSWER FEEDBACK/ < output; exit code 42 or 43) that asks a checker of
# SIO2: `checker INPUT OUTPUT ANSWER` prints OK or another word, then a sentence, then how many percent of the points.
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
# A part of the points is wrong in a problem that is right or wrong.
case $percent in
    "" | 100 | 100.0 | 100.00) exit 42 ;;
    *) exit 43 ;;
esac
