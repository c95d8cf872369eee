"""Problem packages, manifests and programs that tests judge."""

from __future__ import annotations

import hashlib
import re
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from judge.common.errors import PackageError
from judge.executor.channel import Data, Job
from judge.languages.table import Language
from judge.model.messages import Assignment, Limits, SourceFile, Submission
from judge.model.problem import ProblemManifest, ProblemProgram, ProblemTest
from judge.problems.package import Package, manifest_bytes, read_package

ByteFiles = dict[str, bytes]


def folder(parent: Path, files: ByteFiles, name: str = "sum") -> Path:
    """The files below a new directory."""
    root = parent / name
    for path, data in files.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_bytes(data)
    return root


def archive(parent: Path, files: ByteFiles, prefix: str = "", name: str = "sum.zip") -> Path:
    """The files in a new ZIP archive."""
    with zipfile.ZipFile(parent / name, "w", zipfile.ZIP_DEFLATED) as file:
        for path, data in files.items():
            file.writestr(prefix + path, data)
    return parent / name


Files = Mapping[str, bytes | str]


def write(root: Path, files: Files) -> Path:
    """A package as a directory."""
    for name, content in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content.encode() if isinstance(content, str) else content)
    return root


def cases(*names: str, data: bytes = b"1\n") -> ByteFiles:
    """Inputs and answers of tests of a package."""
    return {f"data/{name}.{kind}": data for name in names for kind in ("in", "ans")}


def refusal(root: Path, **options: Any) -> str:
    """The sentence with which a package is refused."""
    with pytest.raises(PackageError) as caught:
        read_package(root, **options)
    sentence = str(caught.value)
    assert "\n" not in sentence
    return sentence


def data_of(package: Package, store: Path) -> Data:
    """What a slot gets of a package, its blobs in `store`; the manifest travels as it does in a cluster."""
    store.mkdir(exist_ok=True)
    for sha in package.blobs:
        data = package.read(sha)
        assert hashlib.sha256(data).hexdigest() == sha
        (store / sha).write_bytes(data)
    manifest = ProblemManifest.model_validate_json(manifest_bytes(package.manifest))
    assert manifest == package.manifest
    return Data(manifest=manifest, files={sha: str(store / sha) for sha in package.blobs})


def load(root: Path, store: Path) -> Data:
    """A package's directory as a slot gets it."""
    with read_package(root) as package:
        return data_of(package, store)


def job(data: Data, language: str, source: str, mode: str = "lazy") -> Job:
    """A submission to it."""
    submission = Submission(language=language, source=source, mode=mode)
    assignment = Assignment(id="1" * 24, attempt=1, claim="c1", submission=submission)
    return Job(assignment=assignment, data=data)


LIMITS = Limits(cpu=2, memory=256 * 1024**2)
VALIDATION = Limits(cpu=2, wall=10, memory=256 * 1024**2)


class Problem:
    """A problem that grows: blobs lie in `store`."""

    def __init__(self, store: Path) -> None:
        """`store` is made."""
        store.mkdir(exist_ok=True)
        self._store = store
        self._files: dict[str, str] = {}

    def blob(self, content: str | bytes) -> str:
        """Keep a content; its name."""
        data = content.encode() if isinstance(content, str) else content
        sha = hashlib.sha256(data).hexdigest()
        (self._store / sha).write_bytes(data)
        self._files[sha] = str(self._store / sha)
        return sha

    def program(self, name: str, source: str, file: str = "", **sources: str) -> ProblemProgram:
        """A program of one file, in Python unless the file's name says otherwise, or of `more` files as well."""
        main = file or f"{name}.py"
        language = {"py": "python3", "c": "c", "cpp": "cpp", "java": "java"}.get(main.rpartition(".")[2])
        files = {main: self.blob(source), **{key: self.blob(text) for key, text in sources.items()}}
        return ProblemProgram(name=name, language=language, main=main, files=files)

    def test(self, name: str, stdin: str = "", answer: str = "", **fields: object) -> ProblemTest:
        """One test; `files` of `more` are contents by name."""
        files = fields.pop("files", {})
        assert isinstance(files, Mapping)
        return ProblemTest.model_validate(
            {
                "name": name,
                "input": self.blob(stdin),
                "answer": self.blob(answer),
                "sample": name.startswith("sample/"),
                "files": {key: self.blob(text) for key, text in files.items()},
                **fields,
            }
        )

    def data(self, *tests: ProblemTest, **overrides: object) -> Data:
        """What a slot gets; the manifest travels as it does in a cluster."""
        fields = {"name": "p", "limits": LIMITS, "validation": VALIDATION, "tests": list(tests), **overrides}
        manifest = ProblemManifest.model_validate(fields)
        read = ProblemManifest.model_validate_json(manifest_bytes(manifest))
        assert read == manifest
        assert read.blobs() <= self._files.keys()
        return Data(manifest=read, files=self._files)


def job_of_manifest(data: Data, submission: Mapping[str, object]) -> Job:
    """A submission to a problem."""
    handed_in = Submission.model_validate(submission)
    return Job(assignment=Assignment(id="1" * 24, attempt=1, claim="c1", submission=handed_in), data=data)


def source(text: str, language: str = "python3", mode: str = "lazy") -> dict[str, object]:
    """A submission of one file."""
    return {"language": language, "source": text, "mode": mode}


def several(files: Mapping[str, str | bytes], **fields: object) -> dict[str, object]:
    """A submission of several files."""
    sources = [
        SourceFile.of(name, content.encode() if isinstance(content, str) else content)
        for name, content in files.items()
    ]
    return {"files": sources, **fields}


_TEXT = """
== c
-- lib/six.h
int six(void);
-- lib/six.c
#include "six.h"
int six(void) { return 6; }
-- main (1).c
#include <stdio.h>
#include "lib/six.h"
int main(void) { printf("%d\\n", 7 * six()); }
== cpp
-- six.hpp
int six();
-- a.cc
#include "six.hpp"
int six() { return 6; }
-- b.c
int seven() { return 7; }
-- main.cpp
#include <iostream>
#include "six.hpp"
int seven();
int main() { std::cout << seven() * six() << "\\n"; }
== java
-- lib/Six.java
package lib;
public class Six { public static int six() { return 6; } }
-- app/Main.java
package app;
import lib.Six;
public class Main { public static void main(String[] a) { System.out.println(7 * Six.six()); } }
== python3
-- lib/__init__.py
-- lib/six.py
SIX = 6
-- main.py
from lib.six import SIX
print(7 * SIX)
== python3 __main__
-- six.py
SIX = 6
-- __main__.py
import six
print(7 * six.SIX)
== go
-- six.go
package main

func six() int { return 6 }
-- six_test.go
package main

import "testing"

func TestSix(t *testing.T) { this does not compile }
-- main.go
package main

import "fmt"

func main() { fmt.Println(7 * six()) }
== go module
-- go.mod
module example.org/six

go 1.19
-- lib/six.go
package lib

func Six() int { return 6 }
-- main.go
package main

import (
	"fmt"

	"example.org/six/lib"
)

func main() { fmt.Println(7 * lib.Six()) }
== rust
-- six.rs
pub fn six() -> i32 { 6 }
-- main.rs
mod six;
fn main() { println!("{}", 7 * six::six()); }
== rust folder
-- src/deep/mod.rs
pub fn six() -> i32 { 6 }
-- src/main.rs
mod deep;
fn main() { println!("{}", 7 * deep::six()); }
== javascript
-- six.js
module.exports = 6;
-- main.js
console.log(7 * require("./six"));
== csharp
-- Six.cs
static class Six { public const int Value = 6; }
-- Main.cs
class Program { static void Main() { System.Console.WriteLine(7 * Six.Value); } }
== pascal
-- six.pas
unit six;
interface
function value: integer;
implementation
function value: integer;
begin
  value := 6
end;
end.
-- start.pas
program start;
uses six;
begin
  writeln(7 * value)
end.
== haskell
-- Six.hs
module Six where
six :: Int
six = 6
-- Main.hs
import Six
main = print (7 * six)
== kotlin
-- lib/six.kt
package lib

fun six() = 6
-- start.kt
package app

import lib.six

fun main() {
    println(7 * six())
}
== ruby
-- six.rb
SIX = 6
-- main.rb
require_relative "six"
require "six"
puts 7 * SIX
== php
-- six.php
<?php const SIX = 6;
-- main.php
<?php require "six.php"; echo 7 * SIX, "\\n";
== perl
-- Six.pm
package Six;
sub six { 6 }
1;
-- main.pl
use Six;
print 7 * Six::six(), "\\n";
== lua
-- six.lua
return 6
-- main.lua
print(7 * require("six"))
== ocaml
-- main.ml
let () = print_int (7 * Six.six)
-- six.ml
let six = 6
== bash
-- six.sh
SIX=6
-- main.sh
. "$(dirname "$0")/six.sh"
echo $((7 * SIX))
== typescript
-- six.ts
export const six: number = 6;
-- main.ts
import { six } from "./six";
console.log(7 * six);
== coffeescript
-- six.coffee
module.exports = 6
-- main.coffee
console.log 7 * require("./six")
== luajit
-- six.lua
return 6
-- main.lua
print(7 * require("six"))
== sh
-- six.sh
SIX=6
-- main.sh
. "${0%/*}/six.sh"
echo $((7 * SIX))
== awk
-- six.awk
function six() { return 6 }
-- main.awk
@include "/box/six.awk"
BEGIN { print 7 * six() }
== tcl
-- six.tcl
proc six {} { return 6 }
-- main.tcl
source [file join [file dirname [info script]] six.tcl]
puts [expr {7 * [six]}]
== d
-- six.d
module six;
int value() { return 6; }
-- main.d
import std.stdio;
import six;
void main() { writeln(7 * six.value()); }
== nim
-- six.nim
proc value*(): int = 6
-- main.nim
import six
echo 7 * value()
== ada
-- six.ads
package Six is
   function Value return Integer;
end Six;
-- six.adb
package body Six is
   function Value return Integer is (6);
end Six;
-- main.adb
with Ada.Integer_Text_IO;
with Six;
procedure Main is
begin
   Ada.Integer_Text_IO.Put (7 * Six.Value, Width => 0);
end Main;
== fortran
-- six.f90
module six
contains
  integer function value()
    value = 6
  end function
end module
-- start.f90
program start
  use six
  print '(i0)', 7 * value()
end program
== fortran77
-- six.f
      INTEGER FUNCTION SIX()
      SIX = 6
      END
-- start.f
      PROGRAM START
      INTEGER SIX
      PRINT '(i0)', 7 * SIX()
      END
== objectivec
-- Six.h
#import <Foundation/Foundation.h>
@interface Six : NSObject
+ (int)value;
@end
-- Six.m
#import "Six.h"
@implementation Six
+ (int)value { return 6; }
@end
-- seven.c
int seven(void) { return 7; }
-- main.m
#include <stdio.h>
#import "Six.h"
int seven(void);
int main(void) { printf("%d\\n", seven() * [Six value]); return 0; }
== nasm
-- six.inc
%define SIX 6
-- main.asm
%include "/box/six.inc"
extern printf
section .data
form: db "%d", 10, 0
section .text
global main
main:
    push rbp
    mov rdi, form
    mov esi, 7 * SIX
    xor eax, eax
    call printf
    xor eax, eax
    pop rbp
    ret
== gas
-- six.inc
.set SIX, 6
-- main.s
.include "/box/six.inc"
.data
form: .asciz "%d\\n"
.text
.globl main
main:
    push %rbp
    mov $form, %rdi
    mov $7 * SIX, %esi
    xor %eax, %eax
    call printf
    xor %eax, %eax
    pop %rbp
    ret
== cobol
-- six.cpy
01 six pic 9 value 6.
-- main.cob
identification division.
program-id. start.
data division.
working-storage section.
copy "six.cpy".
01 product pic 99.
procedure division.
    multiply 7 by six giving product
    display product
    stop run.
== forth
-- six.fth
6 constant six
-- main.fth
include /box/six.fth
7 six * . cr
== lisp
-- six.lisp
(defconstant +six+ 6)
-- main.lisp
(load "/box/six.lisp")
(format t "~d~%" (* 7 (symbol-value '+six+)))
== scheme
-- six.scm
(define six 6)
-- main.scm
(load "/box/six.scm")
(display (* 7 six))
== racket
-- six.rkt
#lang racket/base
(provide six)
(define six 6)
-- main.rkt
#lang racket/base
(require "six.rkt")
(display (* 7 six))
== prolog
-- six.pl
six(6).
-- main.pl
:- [six].
main :- six(N), X is 7 * N, print(X), nl.
== erlang
-- six.hrl
-define(SIX, 6).
-- main.erl
-module(main).
-export([main/0]).
-include("/box/six.hrl").
main() -> io:format("~p~n", [7 * ?SIX]).
== elixir
-- six.exs
defmodule Six do
  def value, do: 6
end
-- main.exs
Code.require_file("six.exs", __DIR__)
IO.puts(7 * apply(Six, :value, []))
== clojure
-- six.clj
(def six 6)
-- main.clj
(load-file "/box/six.clj")
(println (* 7 six))
== scala
-- Six.scala
object Six { val value = 6 }
-- Main.scala
object Main { def main(args: Array[String]): Unit = println(7 * Six.value) }
== groovy
-- Six.groovy
class Six { static int value() { 6 } }
-- Main.groovy
println 7 * Six.value()
== r
-- six.R
six <- 6
-- main.R
source("/box/six.R")
cat(7 * six, "\\n")
== octave
-- six.m
function x = six()
  x = 6;
end
-- main.m
addpath("/box");
printf("%d\\n", 7 * six());
== swift
-- Six.swift
func six() -> Int { return 6 }
-- main.swift
print(7 * six())
== sqlite
-- six.sql
create table six as select 6 as n;
-- main.sql
.read /box/six.sql
select 7 * n from six;
== icon
-- six.icn
procedure six()
  return 6
end
-- main.icn
$include "/box/six.icn"
procedure main()
  write(7 * six())
end
== algol68
-- six.a68
INT six = 6;
-- main.a68
PR read "six.a68" PR
print((whole(7 * six, 0), new line))
== sml
-- six.sml
val six = 6;
-- main.sml
use "/box/six.sml";
fun main () = print (Int.toString (7 * six) ^ "\\n");
== raku
-- Six.rakumod
unit module Six;
sub six is export { 6 }
-- main.raku
use lib '/box';
use Six;
say 7 * six;
"""


def _programs() -> dict[str, dict[str, bytes]]:
    table: dict[str, dict[str, bytes]] = {}
    for program in _TEXT.removeprefix("\n== ").split("\n== "):
        name, _, files = program.partition("\n")
        parts = [part.partition("\n") for part in files.removeprefix("-- ").split("\n-- ")]
        table[name] = {file: (text.rstrip("\n") + "\n").encode() if text else b"" for file, _, text in parts}
    return table


PROGRAMS = _programs()


ROOT = Path(__file__).parents[1] / "languages"
NUMBERS = [7, 3, 999, 3, 0, 7, 12]
SMALL = ("{}\n{}\n".format(len(NUMBERS), " ".join(map(str, NUMBERS))), "1031\n0 3 7 12 999\n")
MANY = [n * n % 1000 for n in range(5000)]
BIG = (f"{len(MANY)}\n" + "\n".join(map(str, MANY)) + "\n", f"{sum(MANY)}\n{' '.join(map(str, sorted(set(MANY))))}\n")

_HEAD = re.compile(r"^=== (right|input|answer|broken|crash|loop|hungry)(?: says (.+))?\n", re.MULTILINE)


@dataclass(frozen=True)
class Programs:
    """Sources by what they do. `says`: words of the compiler's message; `tests`: what `right` is judged on."""

    sources: dict[str, str]
    says: str

    @property
    def tests(self) -> list[tuple[str, str]]:
        """Pairs of input and answer."""
        own = self.sources.get("input"), self.sources.get("answer")
        return [SMALL, BIG] if own[0] is None or own[1] is None else [(own[0], own[1])]


def programs(row: Language) -> Programs:
    """The programs of one row; FileNotFoundError when nobody has written any."""
    names = [name for name in (row.name, row.like) if name]
    path = next((path for name in names if (path := ROOT / f"{name}.txt").is_file()), ROOT / f"{row.name}.txt")
    _, *parts = _HEAD.split(path.read_text(encoding="utf-8"))
    sources = dict(zip(parts[::3], parts[2::3], strict=True))
    says = next((words for words in parts[1::3] if words), "")
    return Programs(sources, says)
