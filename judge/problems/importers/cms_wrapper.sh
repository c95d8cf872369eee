#!/bin/sh
# An output validator of the package format (INPUT ANSWER FEEDBACK/ < output; exit code 42 or 43) that asks a checker of
# the Contest Management System: `checker INPUT ANSWER OUTPUT` prints an outcome from 0 to 1, and a sentence on stderr.
here=${0%/*}
feedback=${3%/}
cat > "$feedback/output.txt" || exit 1
"$here/checker" "$1" "$2" "$feedback/output.txt" > "$feedback/outcome.txt" 2> "$feedback/said.txt" || {
    echo "the checker ended with exit code $?" >&2
    exit 1
}
outcome= said=
read -r outcome rest < "$feedback/outcome.txt"
IFS= read -r said < "$feedback/said.txt"
case $said in
    translate:success*) said="Output is correct" ;;
    translate:partial*) said="Output is partially correct" ;;
    translate:wrong*) said="Output isn't correct" ;;
    translate:*) said=${said#translate:} ;;
esac
printf '%s\n' "$said" > "$feedback/teammessage.txt"
case $outcome in
    1 | 1.0 | 1.00 | 1.000 | 1.000000) exit 42 ;;
    0 | 0.0 | 0.00 | 0.000 | 0.000000) exit 43 ;;
esac
kind=$(awk -v x="$outcome" 'BEGIN {
    if (x !~ /^[-+]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][-+]?[0-9]+)?$/) print "none"
    else if (x + 0 <= 0) print "wrong"
    else if (x + 0 < 1) print "part"
    else if (x + 0 == 1) print "right"
    else print "more"
}')
case $kind in
    right) exit 42 ;;
    wrong) exit 43 ;;
    part) printf '%s\n' "$outcome" > "$feedback/score_multiplier.txt" && exit 42 ;;
    more) printf '%s\n' "$outcome" > "$feedback/score.txt" && exit 42 ;;
esac
echo "the first line that the checker prints is not its outcome, a number" >&2
exit 1
