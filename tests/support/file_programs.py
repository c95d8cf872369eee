"""Programs of several files, each of which prints 42, by a name that begins with the language.

The files stand in an order in which the first is not the one to start, where a language has a way to tell.
"""

from __future__ import annotations

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
"""


def _programs() -> dict[str, dict[str, bytes]]:
    found: dict[str, dict[str, bytes]] = {}
    for program in _TEXT.removeprefix("\n== ").split("\n== "):
        name, _, files = program.partition("\n")
        parts = [part.partition("\n") for part in files.removeprefix("-- ").split("\n-- ")]
        found[name] = {file: (text.rstrip("\n") + "\n").encode() if text else b"" for file, _, text in parts}
    return found


PROGRAMS = _programs()
