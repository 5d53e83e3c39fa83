"""The test of the law: random programs over external state; between calls any of it changes; captured must equal eager.

prelude.py    the external world every program lives in, as source text
grammar.py    expressions and statements, as tables of templates
mutations.py  what may change between two calls, as a table of statements
generate.py   seed and size -> a program (source text and statements to run between calls)
steer.py      tries changes in a scratch world, so that most of them show
runner.py     runs a program in two worlds, eagerly and captured, and compares
reduce.py     makes a failing program small
planted.py    framelift with guards left out, which must be found
more.py       programs over more kinds of objects and state
breaks.py     breaks at random places
facts.py      attributes of all kinds of classes and objects, in the world of facts_world.py
kept.py       captures kept on disk by one process, run by another one in other worlds
run.py        many seeds, several processes
__main__.py   one seed: `python -m tests.law --seed N`
"""
