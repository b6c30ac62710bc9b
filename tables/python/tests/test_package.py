"""What the package's functions return is what the program prints; their examples, types and the notebook hold."""

import doctest
import json
import os
import pathlib
import subprocess
import sys
import typing
import unittest

import nbclient
import nbformat
import pyarrow

import sordino
import sordino.findings
import support

ROOT = pathlib.Path(__file__).resolve().parents[3]


def strange(value, form, path="findings"):
    """Returns the places where a value is not of the type that the package declares for it."""
    origin, arguments = typing.get_origin(form), typing.get_args(form)
    if origin in (typing.Required, typing.NotRequired):
        return strange(value, arguments[0], path)
    if origin is typing.Literal:
        return [] if value in arguments else [f"{path}: {value!r} is none of {arguments}"]
    if typing.is_typeddict(form):
        if not isinstance(value, dict):
            return [f"{path}: {value!r} is no object"]
        known = typing.get_type_hints(form, include_extras=True)
        found = [f"{path}.{key}: unknown" for key in value.keys() - known.keys()]
        found += [f"{path}.{key}: missing" for key in form.__required_keys__ - value.keys()]
        return found + [
            place for key in value.keys() & known.keys() for place in strange(value[key], known[key], f"{path}.{key}")
        ]
    if origin is list:
        return [place for at, each in enumerate(value) for place in strange(each, arguments[0], f"{path}[{at}]")]
    if origin is dict:
        return [place for key in value for place in strange(value[key], arguments[1], f"{path}.{key}")]
    if arguments:
        tried = [strange(value, each, path) for each in arguments]
        return min(tried, key=len)
    return [] if isinstance(value, form) else [f"{path}: {value!r} is no {form.__name__}"]


class Package(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.place = support.Place()
        cls.addClassCleanup(cls.place.close)

    def setUp(self):
        before = os.getcwd()
        self.addCleanup(os.chdir, before)
        os.chdir(self.place.path)

    def test_explanations_are_those_of_the_program(self):
        for options, words in [
            ({"event": "npt:loop", "top": 3}, ["--event", "npt:loop", "--top", "3"]),
            ({"event": "npt:loop", "over": "1ns", "where": "duration >= 0"}, ["--event=npt:loop", "--over=1ns", "--where=duration >= 0"]),
            ({"from_": "1ms"}, ["--from", "1ms"]),
        ]:
            found = sordino.explain("rec", program=support.SORDINO, **options)
            ended = subprocess.run([support.SORDINO, "explain", "rec", "--json", *words], capture_output=True)
            self.assertEqual(found, json.loads(ended.stdout))
            self.assertEqual(strange(found, sordino.Findings), [])
            self.assertTrue(found["intervals"])

    def test_the_kernels_part_of_an_explanation_has_the_declared_types(self):
        recorded = {row["name"] for row in pyarrow.table(sordino.open("rec").table("events", columns=["name"])).to_pylist()}
        if "sched_switch" not in recorded:
            self.skipTest("not measured here: this user may not record the kernel")
        found = sordino.explain("rec", program=support.SORDINO, thread=True, top=1000)
        kinds = {part["cause"]["kind"] for each in found["intervals"] for part in each["parts"]}
        self.assertGreater(len(kinds), 1, kinds)
        self.assertEqual(strange(found, sordino.Findings), [])

    def test_a_failed_explanation_has_the_programs_message(self):
        with self.assertRaisesRegex(sordino.Error, "npt:lop") as raised:
            sordino.explain("rec", program=support.SORDINO, event="npt:lop")
        self.assertFalse(str(raised.exception).startswith("sordino: "))
        with self.assertRaisesRegex(sordino.Error, "can't run nowhere/sordino"):
            sordino.explain("rec", program="nowhere/sordino")
        with self.assertRaisesRegex(sordino.Error, "unexpected argument '--evnt"):
            sordino.explain("rec", program=support.SORDINO, evnt="npt:loop")

    def test_the_examples_of_the_docstrings_run(self):
        recording = sordino.open("rec")
        names = {"sordino": sordino, "pyarrow": pyarrow, "recording": recording}
        os.environ["PATH"] = f"{pathlib.Path(support.SORDINO).parent}:{os.environ['PATH']}"
        runner = doctest.DocTestRunner()
        attempted = 0
        kinds = [sordino, sordino.open, sordino.explain]
        kinds += [getattr(kind, name) for kind in (sordino.Recording, sordino.Table) for name in dir(kind) if name[0] != "_"]
        for kind in [*kinds, sordino.Recording, sordino.Table]:
            text = kind.__doc__ or ""
            name = getattr(kind, "__name__", repr(kind))
            example = doctest.DocTestParser().get_doctest(text, dict(names), name, None, None)
            attempted += len(example.examples)
            runner.run(example)
        self.assertEqual(runner.summarize().failed, 0)
        self.assertGreaterEqual(attempted, 20)

    def test_the_types_are_complete(self):
        package = pathlib.Path(sordino.__file__).parent
        self.assertTrue((package / "py.typed").is_file())
        user = self.place.path / "user.py"
        user.write_text(
            "import sordino\n"
            "lengths: list[int] = [each['length_ns'] for each in sordino.explain('rec')['intervals']]\n"
            "table: sordino.Table = sordino.open('rec').table('events', columns=['cpu'])\n"
        )
        mypy = [sys.executable, "-m", "mypy", "--strict", "--cache-dir", self.place.path / "mypy"]
        ended = subprocess.run([*mypy, "-p", "sordino"], capture_output=True, text=True)
        self.assertEqual(ended.returncode, 0, ended.stdout)
        self.assertEqual(subprocess.run([*mypy, user]).returncode, 0)
        user.write_text("import sordino\nsordino.open('rec').table('event')\n")
        ended = subprocess.run([*mypy, user], capture_output=True, text=True)
        self.assertEqual(ended.returncode, 1, ended.stdout)
        stub = subprocess.run([sys.executable, "-m", "mypy.stubtest", "sordino"], capture_output=True, text=True)
        self.assertEqual(stub.returncode, 0, stub.stdout + stub.stderr)

    def test_the_notebook_runs(self):
        os.environ["PATH"] = f"{pathlib.Path(support.SORDINO).parent}:{os.environ['PATH']}"
        notebook = nbformat.read(ROOT / "examples/python/latency.ipynb", as_version=4)
        nbclient.NotebookClient(notebook, timeout=300, resources={"metadata": {"path": self.place.path}}).execute()
        cells = [cell for cell in notebook.cells if cell.cell_type == "code"]
        self.assertTrue(all(cell.outputs for cell in cells[1:]), [cell.source for cell in cells if not cell.outputs])


if __name__ == "__main__":
    unittest.main()
