"""The line of the program that calls: in errors, and in the record that unisono status and unisono trace read."""

import unittest

import jobs
from jobs import UNISONO


class Places(jobs.JobTest):
    def setUp(self):
        super().setUp()
        installed = self.folder / "installed" / "site-packages"
        installed.mkdir(parents=True)
        (installed / "helpful.py").write_text("import unisono\ndef total(x):\n    return unisono.all_reduce(x)\n")

    def test_calls_have_the_line_of_the_program(self):
        records = str(self.folder / "records")
        output = self.ranks(
            """
        sys.path.append(os.path.join(os.getcwd(), "installed", "site-packages"))
        import importlib
        importlib.reload(unisono._places)
        import helpful
        def line():
            return sys._getframe(1).f_lineno
        def main():
            lines = [(line(), unisono.all_reduce(1))[0]]
            lines += [(line(), unisono.all_gather_object({}))[0]]
            lines += [(line(), unisono.all_reduce_async(np.ones(3)).wait())[0]]
            lines += [(line(), helpful.total(np.ones(3)))[0]]
            lines += [(line(), unisono.barrier())[0]]
            lines += [(line(), unisono.one_rank_only(with_barrier=True)(lambda: None)())[0]]
            try: unisono.all_reduce_async(np.ones(3 + unisono.rank())).wait()
            except unisono.Mismatch as error:
                assert f"at program.py:{error.where.line}: " in str(error) and error.where.file == __file__, error
                lines.append(error.where.line)
            assert lines == list(range(lines[0], lines[0] + 7)), lines
            print("lines", *lines)
        with unisono.Context():
            main()
        """,
            UNISONO_RECORD_DIR=records,
        )
        lines = self.lines(output, 0)[0].split()[1:]
        dump = self.run_command([UNISONO, "status", "--from", records, "--dump"])
        for line in lines:
            self.assertIn(f"program.py:{line}\n", dump, f"{lines}\n{dump}")
        for other in ("helpful.py", ".cpp:", "_calls.py"):
            self.assertNotIn(other, dump)

    def test_a_program_that_is_installed_itself_has_lines_too(self):
        output = self.alone("""
        sys.path.append(os.path.join(os.getcwd(), "installed", "site-packages"))
        unisono._core._leave_out(os.getcwd(), is_ours=False)
        import helpful
        try: helpful.total("no array")
        except unisono.InvalidArgument as error: print(error.where)
        """)
        self.assertEqual(output.strip(), "helpful.py:3")

    def test_code_that_is_gone_lends_its_line_to_no_other(self):
        # Each function lies where the one before it lay, and calls with the same instruction.
        output = self.alone("""
        for i in range(2000):
            names = {"unisono": unisono}
            exec(compile("\\n" * i + "def f(): unisono.all_reduce('no array')", f"made{i % 7}.py", "exec"), names)
            try: names["f"]()
            except unisono.InvalidArgument as error:
                assert str(error.where) == f"made{i % 7}.py:{i + 1}", (error.where, i)
        print("fine")
        """)
        self.assertIn("fine", output)


if __name__ == "__main__":
    unittest.main()
