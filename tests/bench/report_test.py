#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""bench/report on a small folder of results: what it writes, and what --check says."""
import shutil
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

HERE = Path(__file__).resolve().parent
REPORT = HERE.parent.parent / "bench/report"


class Report(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)
        shutil.copytree(HERE / "results", self.folder / "results")
        shutil.copy(HERE / "page.md", self.folder)
        shutil.copy(HERE / "plot.svg", self.folder)

    def run_report(self, *flags):
        files = ["--results", "results", "--page", "page.md", "--plot", "plot.svg"]
        return subprocess.run([sys.executable, str(REPORT), *files, *flags], cwd=self.folder, capture_output=True,
                              text=True, check=False)

    def read(self, name):
        return (self.folder / name).read_text(encoding="utf-8")

    def replace(self, name, old, new):
        self.assertIn(old, self.read(name))
        (self.folder / name).write_text(self.read(name).replace(old, new), encoding="utf-8")

    def test_the_page_of_these_results_is_current(self):
        run = self.run_report("--check")
        self.assertEqual((run.returncode, run.stderr), (0, ""))

    def test_the_page_says_what_was_measured(self):
        page = self.read("page.md")
        for text in ("commit abc1234", "driver 580.1", "2026-12-01", "coda bench --device cuda --json",
                     "coda bench --device cuda --only lse_target --json",
                     "geometric mean 1.021 of 2 shapes", "1.053 !", "1.207 !!", "| 0.990 |", "CUDA_ERROR_OUT_OF_MEMORY",
                     "2 of 3 rows take more", "1 rows failed", "### Generated"):
            self.assertIn(text, page)
        self.assertTrue(page.startswith("# A page\n\nBefore.\n"))
        self.assertTrue(page.endswith("\nAfter.\n"))
        self.assertNotIn("2026-11-01", page)  # an older file of the same suite

    def test_the_plot_has_a_bar_for_each_row_beside_cublas(self):
        plot = self.read("plot.svg")
        for row in ("gemm fwd out 2048", "swiglu bwd 2048", "generated 3"):
            self.assertIn(row, plot)
        self.assertNotIn("rmsnorm_rope bwd", plot)

    def test_what_is_stale_is_told_and_not_written(self):
        for name in ("kernels", "kernels-heads"):
            self.replace(f"results/{name}.json", "abc1234", "def5678")
        run = self.run_report("--check")
        self.assertEqual(run.returncode, 1)
        self.assertIn("page.md is not current", run.stderr)
        self.assertNotIn("def5678", self.read("page.md"))
        self.assertEqual(self.run_report().returncode, 0)
        self.assertIn("def5678", self.read("page.md"))
        self.assertEqual(self.run_report("--check").returncode, 0)
        (self.folder / "plot.svg").unlink()
        self.assertEqual(self.run_report("--check").returncode, 1)

    def test_runs_that_differ_are_not_joined(self):
        self.replace("results/kernels-heads.json", "abc1234", "def5678")
        self.assertEqual(self.run_report().returncode, 0)
        self.assertNotIn("CUDA_ERROR_OUT_OF_MEMORY", self.read("page.md"))

    def test_the_rest_of_the_page_stays(self):
        self.replace("page.md", "Before.", "Before, by hand.")
        self.assertEqual(self.run_report("--check").returncode, 0)

    def test_what_cannot_be_read_is_named(self):
        self.replace("page.md", "<!-- bench/report: end -->", "")
        run = self.run_report()
        self.assertEqual(run.returncode, 2)
        self.assertIn("page.md", run.stderr)
        shutil.copy(HERE / "page.md", self.folder)
        self.replace("results/generated.json", '"bench_schema": 1', '"bench_schema": 9')
        run = self.run_report()
        self.assertEqual(run.returncode, 2)
        self.assertIn("generated.json: bench_schema 9", run.stderr)
        (self.folder / "results/generated.json").write_text("{", encoding="utf-8")
        self.assertIn("no JSON", self.run_report().stderr)


if __name__ == "__main__":
    unittest.main()
