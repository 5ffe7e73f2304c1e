"""Real shells that are asked for completions: bash and zsh on a terminal, where keys are pressed, and fish, which answers a program as well."""

import fcntl
import os
import pty
import re
import select
import shlex
import shutil
import struct
import subprocess
import termios
import time

END = "end-of-this-answer"


class Terminal:
    """An interactive shell. `insert_all` are the keys that put all completions into the line."""

    def __init__(self, program, environment, insert_all):
        self.insert_all = insert_all
        pid, self.fd = pty.fork()
        if pid == 0:
            os.execvpe(program[0], program, environment)
        self.pid = pid
        fcntl.ioctl(self.fd, termios.TIOCSWINSZ, struct.pack("HHHH", 50, 4000, 0, 0))

    def type(self, keys):
        os.write(self.fd, keys.encode())

    def read_until(self, pattern, seconds=60):
        text, deadline = "", time.monotonic() + seconds
        while not re.search(pattern, text, re.M):
            ready, _, _ = select.select([self.fd], [], [], max(0, deadline - time.monotonic()))
            if not ready:
                raise TimeoutError(f"the shell has only said {text!r}")
            text += os.read(self.fd, 65536).decode(errors="replace").replace("\r", "")
        return text

    def command(self, line):
        self.type(f"{line}; echo {END[:-1]}''{END[-1]}\n")
        self.read_until(f"^{END}$")

    def complete(self, line):
        """The words of the line after all completions have been put into it, but those that were typed in full."""
        self.type(line + self.insert_all + "\x01" + "printf '<%s>\\n' " + "\x05" + f"; echo {END[:-1]}''{END[-1]}\n")
        return re.findall(r"^<(.*)>$", self.read_until(f"^{END}$"), re.M)

    def end(self):
        os.close(self.fd)
        os.waitpid(self.pid, 0)


class Bash:
    """`completions`: with the package bash-completion, or None."""

    def __init__(self, environment, script, completions=None):
        self.terminal = Terminal(["bash", "--noprofile", "--norc", "-i"], {**environment, "INPUTRC": "/dev/null"}, "\x18a")
        self.terminal.command("PS1=; bind 'set enable-bracketed-paste off'; bind '\"\\C-xa\": insert-completions'")
        if completions:
            self.terminal.command(f". {completions}")
        self.terminal.command(f". {script}; complete -W 'alpha beta' zz-one")

    @staticmethod
    def missing():
        return None if shutil.which("bash") else "bash is not installed"

    def complete(self, line):
        typed = shlex.split(line)
        added = self.terminal.complete(line)[len(typed) - (not line.endswith(" ")):]
        return {word.rstrip("/") for word in added}  # of a folder only some of them keep it

    def end(self):
        self.terminal.end()


class Zsh(Bash):
    def __init__(self, environment, script):
        self.terminal = Terminal(["zsh", "-f", "-i"], environment, "\x18a")
        self.terminal.command("PS1=; unsetopt zle_bracketed_paste 2>/dev/null; unset zle_bracketed_paste; bindkey -e")
        self.terminal.command("autoload -Uz compinit; compinit -D -u; zle -C all-matches complete-word _generic; bindkey '^Xa' all-matches")
        self.terminal.command("zstyle ':completion:all-matches:*' insert true; zstyle ':completion:all-matches::::' completer _all_matches _complete")
        self.terminal.command(f". {script}; _zz_one() {{ compadd alpha beta }}; compdef _zz_one zz-one")

    @staticmethod
    def missing():
        return None if shutil.which("zsh") else "zsh is not installed"


class Fish:
    def __init__(self, environment, script):
        self.environment, self.script = environment, script

    @staticmethod
    def missing():
        return None if shutil.which("fish") else "fish is not installed"

    def complete(self, line):
        program = f"source {self.script}; complete -c zz-one -f -a 'alpha beta'; complete -C '{line}'"
        told = subprocess.run(["fish", "--no-config", "-c", program], capture_output=True, text=True, env=self.environment, timeout=60)
        if told.stderr:
            raise RuntimeError(told.stderr)
        return {answer.split("\t")[0].rstrip("/") for answer in told.stdout.splitlines()}

    def end(self):
        pass
