#!/bin/bash
# data/secret is made at import; with testdata_tools beside the package this script makes it, too.
. ../../testdata_tools/gen.sh

use_solution sum.py
compile numbers.py

samplegroup
sample 1

group small 40
tc one numbers 1 1
for size in {4..5}; do
  tc few-$size numbers $size 100
done

group large 60
include_group small
tc many numbers 1000 1000000000
tc_manual ../generators/negative.in
