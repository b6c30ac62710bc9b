//! The code of the rings and of control, in every order in which its steps can happen: `scripts/loom`.
//!
//! The checker loom runs a model once for each order of its threads' steps, and for each value that a load may see. A
//! thread of a model is a program's thread or the collector; `sordino_percpu::model` is their basis. A model fails by
//! an assertion, or if no order keeps apart two plain accesses of one word.
//!
//! A killed thread is one that does nothing while the others run to their end: loom stops it at every step.
//!
//! `../orders.txt` lists each memory order, its weaker replacement, and the models of these that then have to fail.
#![cfg(loom)]

mod annotations;
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
