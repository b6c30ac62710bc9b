//! The real code of the rings and of control, in every order in which its steps can happen: `scripts/loom`.
//!
//! The checker loom runs a model once for each order of its threads' steps, and for each value that a load may see. Here
//! a thread is a program's thread or the collector; `sordino_percpu::model` is what they stand on. A model fails by an
//! assertion, or where two plain accesses of one word are ordered by nothing.
//!
//! A thread that is killed is one that does nothing while the others come to their end: loom stops it at every step.
//!
//! `../orders.txt` says for each memory order how it is weakened, and which of these models then has to fail.
#![cfg(loom)]

mod area;
mod attach;
mod condition;
mod cpu;
mod newest;
mod overwrite;
mod pages;
mod pending;
mod shared;
mod support;
mod value;
