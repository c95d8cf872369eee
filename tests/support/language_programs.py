"""For every language of the table: programs that each get one verdict, in the ways of that language.

`right` reads a count and as many integers (each below 1000), and prints their sum and the distinct ones in order:
input, collections, sorting. `crash` fails as the language's programs do, `loop` never ends and `hungry` never stops
allocating. `broken` cannot be compiled, or not be read by the interpreter.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Programs:
    """Sources by what they do. `says`: words that the compiler's message has, for people to see what is wrong."""

    right: str
    broken: str
    crash: str
    loop: str
    hungry: str
    says: str


NUMBERS = [7, 3, 999, 3, 0, 7, 12]
SMALL = ("{}\n{}\n".format(len(NUMBERS), " ".join(map(str, NUMBERS))), "1031\n0 3 7 12 999\n")
MANY = [n * n % 1000 for n in range(5000)]
BIG = (f"{len(MANY)}\n" + "\n".join(map(str, MANY)) + "\n", f"{sum(MANY)}\n{' '.join(map(str, sorted(set(MANY))))}\n")

PROGRAMS = {
    "c": Programs(
        right=r"""
#include <stdio.h>
static int seen[1000];
static long total(int n) { int x; if (n == 0 || scanf("%d", &x) != 1) return 0; seen[x] = 1; return x + total(n - 1); }
int main(void) {
    int n; const char *gap = "";
    if (scanf("%d", &n) != 1) return 1;
    printf("%ld\n", total(n));
    for (int i = 0; i < 1000; i++) if (seen[i]) { printf("%s%d", gap, i); gap = " "; }
    puts("");
}
""",
        broken="int main(void) { return undeclared; }",
        crash="#include <stdlib.h>\nint main(void) { abort(); }",
        loop="int main(void) { for (volatile int i = 0;; i++); }",
        hungry="#include <stdlib.h>\n#include <string.h>\n"
        "int main(void) { for (;;) memset(malloc(1 << 20), 1, 1 << 20); }",
        says="undeclared",
    ),
    "cpp": Programs(
        right=r"""
#include <iostream>
#include <set>
#include <vector>
int main() {
    int n, x; long sum = 0; std::set<int> all;
    std::cin >> n;
    while (n-- > 0 && std::cin >> x) sum += x, all.insert(x);
    std::cout << sum << '\n';
    for (auto it = all.begin(); it != all.end(); ++it) std::cout << (it == all.begin() ? "" : " ") << *it;
    std::cout << std::endl;
}
""",
        broken="int main() { return undeclared; }",
        crash='#include <stdexcept>\nint main() { throw std::runtime_error("no"); }',
        loop="int main() { for (volatile int i = 0;; i = i + 1); }",
        hungry="#include <vector>\n"
        "int main() { std::vector<std::vector<char>> v; for (;;) v.emplace_back(1 << 20, 'x'); }",
        says="undeclared",
    ),
    "java": Programs(
        right=r"""
import java.util.*;
import java.util.stream.*;
public class Sum {
    public static void main(String[] args) {
        Scanner in = new Scanner(System.in);
        int n = in.nextInt();
        List<Integer> all = IntStream.range(0, n).map(i -> in.nextInt()).boxed().collect(Collectors.toList());
        System.out.println(all.stream().mapToLong(x -> x).sum());
        System.out.println(new TreeSet<>(all).stream().map(String::valueOf).collect(Collectors.joining(" ")));
    }
}
""",
        broken="public class Sum { public static void main(String[] a) { int x = undeclared; } }",
        crash='class Sum { public static void main(String[] a) { throw new RuntimeException("no"); } }',
        loop="class Sum { public static void main(String[] a) { for (;;) ; } }",
        hungry="class Sum { public static void main(String[] a) { var x = new java.util.ArrayList<int[]>();"
        " for (;;) x.add(new int[1 << 18]); } }",
        says="cannot find symbol",
    ),
    "python3": Programs(
        right="""
import sys
n, *numbers = map(int, sys.stdin.read().split())
assert n == len(numbers)
print(sum(numbers))
print(*sorted(set(numbers)))
""",
        broken="print((1, 2)",
        crash="raise ValueError('no')",
        loop="while True: pass",
        hungry="x = []\nwhile True: x.append(bytearray(1 << 20))",
        says="SyntaxError",
    ),
    "go": Programs(
        right=r"""
package main

import (
	"bufio"
	"fmt"
	"os"
	"sort"
	"strings"
	"sync"
)

func main() {
	in := bufio.NewReader(os.Stdin)
	var n int
	fmt.Fscan(in, &n)
	numbers := make(chan int)
	var wait sync.WaitGroup
	wait.Add(1)
	sum, seen := 0, map[int]bool{}
	go func() {
		for x := range numbers {
			sum += x
			seen[x] = true
		}
		wait.Done()
	}()
	for ; n > 0; n-- {
		var x int
		fmt.Fscan(in, &x)
		numbers <- x
	}
	close(numbers)
	wait.Wait()
	keys := []int{}
	for x := range seen {
		keys = append(keys, x)
	}
	sort.Ints(keys)
	fmt.Println(sum)
	fmt.Println(strings.Trim(fmt.Sprint(keys), "[]"))
}
""",
        broken="package main\n\nfunc main() { x := undeclared; _ = x }\n",
        crash='package main\n\nfunc main() { panic("no") }\n',
        loop="package main\n\nfunc main() { for i := 0; ; i++ { } }\n",
        hungry="package main\n\nfunc main() {\n\tvar x [][]byte\n\tfor {\n\t\tb := make([]byte, 1<<20)\n"
        "\t\tfor i := range b {\n\t\t\tb[i] = 1\n\t\t}\n\t\tx = append(x, b)\n\t}\n}\n",
        says="undeclared",
    ),
    "rust": Programs(
        right=r"""
use std::collections::BTreeSet;
use std::io::Read;
fn main() {
    let mut text = String::new();
    std::io::stdin().read_to_string(&mut text).unwrap();
    let numbers: Vec<i64> = text.split_whitespace().map(|x| x.parse().unwrap()).collect();
    assert_eq!(numbers[0] as usize, numbers.len() - 1);
    println!("{}", numbers[1..].iter().sum::<i64>());
    let all: BTreeSet<i64> = numbers[1..].iter().copied().collect();
    println!("{}", all.iter().map(|x| x.to_string()).collect::<Vec<_>>().join(" "));
}
""",
        broken="fn main() { undeclared(); }",
        crash='fn main() { panic!("no"); }',
        loop="fn main() { loop { std::hint::spin_loop(); } }",
        hungry="fn main() { let mut v = Vec::new(); loop { v.push(vec![1u8; 1 << 20]); } }",
        says="cannot find function",
    ),
    "javascript": Programs(
        right=r"""
const [n, ...numbers] = require("fs").readFileSync(0, "utf8").trim().split(/\s+/).map(Number);
if (n !== numbers.length) throw new Error("count");
console.log(numbers.reduce((a, b) => a + b, 0));
console.log([...new Set(numbers)].sort((a, b) => a - b).join(" "));
const depth = (n) => (n === 0 ? 0 : 1 + depth(n - 1));
if (depth(100000) !== 100000) throw new Error("depth");
""",
        broken="let x = (1;",
        crash='throw new Error("no");',
        loop="for (;;) {}",
        hungry="const x = []; for (let i = 0; ; i++) x.push([i, i + 1, String(i)]);",
        says="SyntaxError",
    ),
    "csharp": Programs(
        right=r"""
using System;
using System.Collections.Generic;
using System.Linq;
using System.Numerics;
class Sum {
    static void Main() {
        var words = Console.In.ReadToEnd().Split(new[] {' ', '\n'}, StringSplitOptions.RemoveEmptyEntries);
        var numbers = words.Skip(1).Select(int.Parse).ToList();
        BigInteger sum = 0;
        foreach (var x in numbers) sum += x;
        Console.WriteLine(sum);
        Console.WriteLine(string.Join(" ", new SortedSet<int>(numbers)));
    }
}
""",
        broken="class Sum { static void Main() { int x = undeclared; } }",
        crash='class Sum { static void Main() { throw new System.Exception("no"); } }',
        loop="class Sum { static void Main() { for (;;) { } } }",
        hungry="class Sum { static void Main() { var x = new System.Collections.Generic.List<byte[]>();"
        " for (;;) { var b = new byte[1 << 20]; for (int i = 0; i < b.Length; i++) b[i] = 1; x.Add(b); } } }",
        says="error CS0103",
    ),
    "pascal": Programs(
        right=r"""
program sum;
uses sysutils;
var n, i, x: integer; total: int64; seen: array[0..999] of boolean; gap: string;
begin
  fillchar(seen, sizeof(seen), 0);
  total := 0; gap := '';
  read(n);
  for i := 1 to n do begin read(x); total := total + x; seen[x] := true end;
  writeln(inttostr(total));
  for i := 0 to 999 do if seen[i] then begin write(gap, i); gap := ' ' end;
  writeln;
end.
""",
        broken="begin x := 1; end.",
        crash="{$mode objfpc} uses sysutils; begin raise exception.create('no'); end.",
        loop="begin while true do; end.",
        hungry="var p: ^byte; begin while true do begin getmem(p, 1 shl 20); fillchar(p^, 1 shl 20, 1); end; end.",
        says="Identifier not found",
    ),
    "haskell": Programs(
        right=r"""
import qualified Data.IntSet as S
import qualified Data.ByteString.Char8 as B
import Data.Maybe (mapMaybe)
main :: IO ()
main = do
  text <- B.getContents
  let numbers = map fst (mapMaybe B.readInt (tail (B.words text)))
  print (sum numbers)
  putStrLn (unwords (map show (S.toAscList (S.fromList numbers))))
""",
        broken="main = undeclared",
        crash='main = error "no"',
        loop="main = let go :: Int -> IO (); go n = if n < 0 then print n else go ((n + 1) `mod` 1000003) in go 0",
        hungry="import Data.IORef\nmain = newIORef [] >>= go 0\n"
        "go :: Integer -> IORef [Integer] -> IO ()\ngo n r = modifyIORef' r (n :) >> go (n + 1) r",
        says="not in scope",
    ),
    "kotlin": Programs(
        right=r"""
fun main() {
    val numbers = generateSequence(::readLine).flatMap { it.trim().split(" ").asSequence() }.map { it.toInt() }.toList()
    println(numbers.drop(1).sum())
    println(numbers.drop(1).toSortedSet().joinToString(" "))
}
""",
        broken="fun main() { println(undeclared) }",
        crash='fun main() { throw RuntimeException("no") }',
        loop="fun main() { while (true) { } }",
        hungry="fun main() { val x = ArrayList<IntArray>(); while (true) x.add(IntArray(1 shl 18)) }",
        says="unresolved reference",
    ),
    "ruby": Programs(
        right="""
require "set"
n, *numbers = STDIN.read.split.map(&:to_i)
raise "count" unless n == numbers.size
puts numbers.sum
puts numbers.to_set.sort.join(" ")
""",
        broken="def f(",
        crash='raise "no"',
        loop="loop {}",
        hungry='x = []; loop { x << "x" * (1 << 20) }',
        says="syntax error",
    ),
    "php": Programs(
        right=r"""<?php
$numbers = array_map('intval', preg_split('/\s+/', trim(stream_get_contents(STDIN))));
$count = array_shift($numbers);
if ($count !== count($numbers) || !ctype_digit("12")) exit(1);
echo array_sum($numbers), "\n";
$all = array_unique($numbers);
sort($all);
echo implode(' ', $all), "\n";
""",
        broken="<?php\nfunction f( {\n",
        crash='<?php\nthrow new Exception("no");\n',
        loop="<?php\nwhile (true) {}\n",
        hungry='<?php\n$x = []; while (true) $x[] = str_repeat("x", 1 << 20);\n',
        says="syntax error",
    ),
    "perl": Programs(
        right=r"""
use strict; use warnings; use List::Util qw(sum uniq);
my ($n, @numbers) = split ' ', do { local $/; <STDIN> };
die "count" unless $n == @numbers;
print sum(@numbers), "\n";
print join(' ', sort { $a <=> $b } uniq(@numbers)), "\n";
""",
        broken="use strict; my $x = (1;",
        crash='die "no";',
        loop="while (1) {}",
        hungry='my @x; while (1) { push @x, "x" x (1 << 20); }',
        says="syntax error",
    ),
    "lua": Programs(
        right=r"""
local n, sum, seen, all = io.read("n"), 0, {}, {}
for _ = 1, n do
  local x = io.read("n")
  sum = sum + x
  if not seen[x] then seen[x] = true; table.insert(all, x) end
end
table.sort(all)
print(sum)
print(table.concat(all, " "))
""",
        broken="local x = = 1",
        crash='error("no")',
        loop="while true do end",
        hungry='local t = {} while true do t[#t + 1] = string.rep("x", 1 << 20) .. #t end',
        says="unexpected symbol",
    ),
    "ocaml": Programs(
        right=r"""
module S = Set.Make (Int)
let () =
  Scanf.scanf " %d" (fun n ->
    let numbers = List.init n (fun _ -> Scanf.scanf " %d" (fun x -> x)) in
    Printf.printf "%d\n" (List.fold_left ( + ) 0 numbers);
    let all = S.elements (S.of_list numbers) in
    print_endline (String.concat " " (List.map string_of_int all));
    ignore (Str.regexp "x", Unix.getpid ()))
""",
        broken="let () = print_int undeclared",
        crash='let () = failwith "no"',
        loop="let () = while true do ignore (Sys.opaque_identity 1) done",
        hungry="let rec go l = go (Bytes.make 1_000_000 'x' :: l) let () = go []",
        says="Unbound value",
    ),
    "bash": Programs(
        right=r"""
read -r n
mapfile -t numbers < <(tr ' ' '\n')
(( n == ${#numbers[@]} )) || exit 1
sum=0
for x in "${numbers[@]}"; do (( sum += x )); done
echo "$sum"
printf '%s\n' "${numbers[@]}" | sort -nu | paste -sd' '
""",
        broken="if true; then echo",
        crash="set -e\nfalse",
        loop="while :; do :; done",
        hungry="x=$(printf '%01048576d' 0); while :; do x+=$x; done",
        says="syntax error",
    ),
}  # fmt: skip
