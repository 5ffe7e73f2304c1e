// The words of the command: what is understood, and what is said about those that are not.

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <regex>

#include "base/version.h"
#include "running_command.h"

namespace unisono::testing {
namespace {

using Words = std::vector<std::string>;

void expect_narrow(const std::string& text) {
  for (const std::string& line : lines_of(text)) EXPECT_LE(width_of(line), 80U) << line;
}

struct Answer {
  int code = 0;
  std::string out, err;
};

Answer ask(Words words, std::map<std::string, std::string> environment = {}) {
  RunningCommand command(unisono_command(std::move(words)), {.environment = std::move(environment)});
  Answer answer;
  answer.code = command.wait();
  answer.out = command.out();
  answer.err = command.err();
  return answer;
}

/// The complaint of wrong use: its first sentence, after everything else about it has been checked.
std::string refusal(Words words, std::map<std::string, std::string> environment = {}) {
  const std::string shown = ::testing::PrintToString(words);
  const Answer answer = ask(std::move(words), std::move(environment));
  EXPECT_EQ(answer.code, 2) << shown << answer.err;
  EXPECT_EQ(answer.out, "") << shown;
  expect_narrow(answer.err);
  const auto usage = answer.err.find("\nusage: unisono");
  EXPECT_NE(usage, std::string::npos) << answer.err;
  EXPECT_EQ(answer.err.find("subcommand"), std::string::npos) << answer.err;
  std::string sentence = answer.err.substr(0, usage);
  // Lines of one sentence, put together again.
  for (auto at = sentence.find("\n  "); at != std::string::npos; at = sentence.find("\n  ", at)) sentence.replace(at, 3, " ");
  return sentence;
}

TEST(CommandLine, TheCommandSaysItsVersionInEveryUsualWay) {
  const std::string version = "unisono " + base::to_string(base::library_version()) + "\n";
  for (const Words& words : {Words{"--version"}, Words{"-V"}, Words{"version"}}) {
    const Answer answer = ask(words);
    EXPECT_EQ(answer.code, 0) << words[0];
    EXPECT_EQ(answer.out, version) << words[0];
    EXPECT_EQ(answer.err, "") << words[0];
  }
}

TEST(CommandLine, HelpIsTheSamePageHoweverItIsAskedFor) {
  EXPECT_EQ(ask({"help"}).out, ask({"--help"}).out);
  EXPECT_EQ(ask({"-h"}).out, ask({"--help"}).out);
  for (const char* name : {"run", "bench", "info", "doctor", "simulate", "status", "trace", "completion", "version", "help"}) {
    EXPECT_NE(ask({"help"}).out.find(fmt::format("\n  {} ", name)), std::string::npos) << name;
    const Answer page = ask({"help", name});
    EXPECT_EQ(page.code, 0) << page.err;
    EXPECT_EQ(page.out, ask({name, "--help"}).out) << name;
    EXPECT_NE(page.out.find(fmt::format("usage: unisono {}", name)), std::string::npos) << page.out;
    expect_narrow(page.out);
  }
  expect_narrow(ask({"help"}).out);
  EXPECT_EQ(refusal({"help", "rnu"}), "unisono: unknown command 'rnu'; did you mean 'run'?");
}

TEST(CommandLine, HelpIsAsWideAsTheTerminal) {
  for (const std::size_t columns : {60U, 132U}) {
    RunningCommand command(unisono_command({"run", "--help"}), {.stdio = RunningCommand::Stdio::terminal, .columns = static_cast<int>(columns)});
    EXPECT_EQ(command.wait(), 0);
    std::size_t widest = 0;
    for (std::string line : lines_of(command.out())) {
      if (line.ends_with('\r')) line.pop_back();
      if (!line.starts_with("  unisono ")) widest = std::max(widest, width_of(line));  // an example is to be copied in one piece
    }
    EXPECT_LE(widest, columns) << command.out();
    EXPECT_GT(widest, columns - 10) << command.out();
  }
}

TEST(CommandLine, HelpHasGroupsAndSaysWhatEachValueIs) {
  const std::string page = ask({"run", "--help"}).out;
  std::size_t last = 0;
  for (const char* group :
       {"Ranks", "Output and input", "Time and signals", "Hosts that are reached by ssh", "Launchers that are started on each host", "Others"}) {
    const auto at = page.find(fmt::format("\n\n{}:\n", group));
    ASSERT_NE(at, std::string::npos) << group << page;
    EXPECT_GT(at, last) << group;
    last = at;
  }
  EXPECT_EQ(count(page, "\n  -n, --ranks N|MIN:MAX"), 1) << page;
  EXPECT_EQ(count(page, "\n  --grace SECONDS"), 1) << page;
  EXPECT_EQ(count(ask({"version", "--help"}).out, "\nOptions:\n  -h, --help"), 1);
  // CLI11 names types where an option names no value.
  const std::regex type("\n  -[^ ]*(, --[^ ]*)? (INT|UINT|FLOAT|TEXT|ENUM)\\b");
  for (const char* name : {"run", "bench", "info", "doctor", "simulate", "status", "trace"}) {
    std::smatch found;
    const std::string text = ask({name, "--help"}).out;
    EXPECT_FALSE(std::regex_search(text, found, type)) << name << found.str();
  }
}

TEST(CommandLine, AMistypedCommandIsNamedWithTheOneThatIsMeant) {
  EXPECT_EQ(refusal({"rnu", "-n", "2", "true"}), "unisono: unknown command 'rnu'; did you mean 'run'?");
  EXPECT_EQ(refusal({"benhc"}), "unisono: unknown command 'benhc'; did you mean 'bench'?");
  EXPECT_EQ(refusal({"WRONG"}),
            "unisono: unknown command 'WRONG'; there are run, bench, info, doctor, simulate, status, trace, completion, version, help");
  EXPECT_EQ(refusal({}), "unisono: a command is missing; there are run, bench, info, doctor, simulate, status, trace, completion, version, help");
}

/// Copies `unisono` and the program of `doctor` into a prefix. Returns the path of `unisono`.
std::string install_into(const std::string& prefix) {
  const std::filesystem::path built = std::filesystem::path(UNISONO_COMMAND).parent_path().parent_path();
  for (const char* file : {"bin/unisono", "libexec/unisono/unisono-doctor"}) {
    const std::filesystem::path target = std::filesystem::path(prefix) / file;
    std::filesystem::create_directories(target.parent_path());
    std::filesystem::copy_file(built / file, target);
  }
  return prefix + "/bin/unisono";
}

TEST(CommandLine, AProgramIsFoundInAPrefixThatIsNamedAsItsFolder) {
  const TemporaryFolder folder;
  RunningCommand command({install_into(folder.path() + "/libexec"), "doctor", "--help"});
  EXPECT_EQ(command.wait(), 0) << command.err();
  EXPECT_EQ(command.out(), ask({"doctor", "--help"}).out);
}

TEST(CommandLine, AProgramThatAnybodyCouldHavePutThereIsNotStarted) {
  const TemporaryFolder folder;
  const std::string unisono = install_into(folder.path() + "/prefix");
  std::filesystem::permissions(folder.path() + "/prefix/libexec/unisono", std::filesystem::perms::all);
  RunningCommand command({unisono, "doctor"});
  EXPECT_EQ(command.wait(), 2);
  EXPECT_NE(unwrapped(command.err()).find("/libexec/unisono/unisono-doctor is not used: "), std::string::npos) << command.err();
}

TEST(CommandLine, ACommandWhoseProgramIsMissingSaysHowToGetIt) {
  const TemporaryFolder prefix;
  const std::string alone = prefix.path() + "/bin/unisono";
  std::filesystem::create_directory(prefix.path() + "/bin");
  std::filesystem::copy_file(UNISONO_COMMAND, alone);
  for (const char* name : {"bench", "doctor", "simulate", "trace"}) {
    RunningCommand command({alone, name, "--json", "x"});
    EXPECT_EQ(command.wait(), 2);
    EXPECT_TRUE(unwrapped(command.err()).starts_with(fmt::format("unisono {0}: its program libexec/unisono/unisono-{0} is missing; ", name)))
        << command.err();
    RunningCommand help({alone, "help", name});
    EXPECT_EQ(help.wait(), 0);
    EXPECT_NE(help.out().find("(not in"), std::string::npos) << help.out();
  }
}

TEST(CommandLine, AProgramWhereACommandBelongsIsToldHowItIsStarted) {
  EXPECT_EQ(refusal({"./app", "--epochs", "3"}), "unisono: './app' is not a command; to start it as ranks: unisono run -n 2 ./app");
  EXPECT_EQ(refusal({RANK_HELPER}), fmt::format("unisono: '{0}' is not a command; to start it as ranks: unisono run -n 2 {0}", RANK_HELPER));
}

TEST(CommandLine, AMistypedOptionIsNamedWithTheOneThatIsMeant) {
  EXPECT_EQ(refusal({"run", "--nnode", "2", "true"}), "unisono run: unknown option '--nnode'; did you mean '--nnodes'?");
  EXPECT_EQ(refusal({"run", "--max-restart=1", "true"}), "unisono run: unknown option '--max-restart'; did you mean '--max-restarts'?");
  EXPECT_EQ(refusal({"run", "-n", "2", "--machines", "h", "true"}), "unisono run: unknown option '--machines'");
  EXPECT_EQ(refusal({"bench", "--szies", "8"}), "unisono bench: unknown option '--szies'; did you mean '--sizes'?");
  EXPECT_EQ(refusal({"info", "--jsno"}), "unisono info: unknown option '--jsno'; did you mean '--json'?");
  EXPECT_EQ(refusal({"run", "-y", "true"}), "unisono run: unknown option '-y'");
}

TEST(CommandLine, TheNumberOfRanksHasTheNamesThatOtherLaunchersGiveIt) {
  for (const Words& words : {Words{"-np", "3"}, Words{"--np", "3"}, Words{"--nprocs", "3"}, Words{"--nprocs=3"}, Words{"--nproc-per-node", "3"},
                             Words{"--nproc_per_node=3"}, Words{"--ranks", "3"}, Words{"-n3"}}) {
    Words all{"run"};
    all.insert(all.end(), words.begin(), words.end());
    all.insert(all.end(), {RANK_HELPER, "variables", "WORLD_SIZE"});
    const Answer answer = ask(all);
    EXPECT_EQ(answer.code, 0) << words[0] << answer.err;
    EXPECT_EQ(count(answer.out, "WORLD_SIZE=3\n"), 3) << words[0] << answer.out;
  }
  // Words of the program stay as they are.
  EXPECT_EQ(ask({"run", "-np", "1", RANK_HELPER, "arguments", "-np", "--nproc_per_node"}).out, "[0] <-np>\n[0] <--nproc_per_node>\n");
}

TEST(CommandLine, UnderscoresOfTorchrunAreUnderstood) {
  const Answer answer = ask({"run", "--max_restarts=0", "--master_port", "0", RANK_HELPER, "exit", "9", "0"});
  EXPECT_EQ(answer.code, 0) << answer.err;
}

TEST(CommandLine, AWrongValueIsSaidInOneSentence) {
  EXPECT_EQ(refusal({"run", "-n", "four", "true"}), "unisono run: --ranks must be a whole number from 1 to 65536, not 'four'");
  EXPECT_EQ(refusal({"run", "-np", "0", "true"}), "unisono run: --ranks must be a whole number from 1 to 65536, not '0'");
  EXPECT_EQ(refusal({"bench", "-np", "0"}), "unisono bench: --ranks must be a whole number from 1 to 1024, not '0'");
  EXPECT_EQ(refusal({"run", "--grace", "long", "true"}), "unisono run: --grace must be a number from 0 on, not 'long'");
  EXPECT_EQ(refusal({"run", "--bind", "socket", "true"}), "unisono run: --bind must be core, l3, numa or none, not 'socket'");
  EXPECT_EQ(refusal({"completion", "tcsh"}), "unisono completion: SHELL must be bash, zsh or fish, not 'tcsh'");
  EXPECT_EQ(refusal({"completion"}), "unisono completion: SHELL is required");
  EXPECT_EQ(refusal({"bench", "--data", "stale"}), "unisono bench: --data must be static, varying or touch, not 'stale'");
}

TEST(CommandLine, TheSchedulesOfAnyJobAreShown) {
  const Answer of_many = ask({"info", "--schedules", "--ranks", "1000", "--hosts", "125"}), of_few = ask({"info", "--schedules", "--ranks=2"});
  EXPECT_EQ(of_many.code, 0) << of_many.err;
  expect_narrow(of_many.out);
  EXPECT_EQ(lines_of(of_many.out).front(), "ranks                       1000 on 125 hosts");
  EXPECT_EQ(lines_of(of_few.out).front(), "ranks                       2 on 2 hosts");
  // 16 KiB of all ranks together travel with the comparison of the calls.
  EXPECT_EQ(count(of_many.out, "\nall_reduce                  with the comparison of the calls, two_levels from 20"), 1) << of_many.out;
  EXPECT_EQ(count(of_few.out, "\nscan                        with the comparison of the calls, recursive_doubling"), 1) << of_few.out;
  for (const Answer* each : {&of_many, &of_few}) {
    EXPECT_EQ(count(each->out, "\nnetwork                     assumed: latency 20 µs, "), 1) << each->out;
    EXPECT_EQ(count(each->out, "\nmeasured figures            unisono run … -- unisono info --schedules"), 1) << each->out;
    EXPECT_EQ(count(each->out, "\nassumed in any case         in shared memory"), 1) << each->out;
  }
  const Answer given = ask({"info", "--schedules"}, {{"UNISONO_NETWORK", "5,0.5,1"}});
  EXPECT_EQ(count(given.out, "\nnetwork                     given by UNISONO_NETWORK: latency 5 µs, 0.5 µs for"), 1) << given.out;
  EXPECT_EQ(count(given.out, "measured figures"), 0) << given.out;
  EXPECT_EQ(refusal({"info", "--schedules", "--ranks", "1"}), "unisono info: --ranks must be a whole number from 2 to 100000, not '1'");
  EXPECT_EQ(refusal({"info", "--schedules", "--ranks", "4", "--hosts", "5"}),
            "unisono info: --hosts must be at most the number of ranks, 4, not '5'");
  EXPECT_EQ(refusal({"info", "--ranks", "4"}), "unisono info: --ranks requires --schedules");
}

TEST(CommandLine, TheSchedulesOfThisJobAreShownByRankZero) {
  const Answer native = ask({"run", "-n", "3", UNISONO_COMMAND, "info", "--schedules"});
  EXPECT_EQ(native.code, 0) << native.err;
  EXPECT_EQ(lines_of(native.out).front(), "[0] ranks                       3 on 1 host, those of this job");
  EXPECT_EQ(count(native.out, "network                     none: shared memory runs all calls"), 1) << native.out;
  EXPECT_EQ(count(native.out, "[1]") + count(native.out, "[2]"), 0) << native.out;
  const Answer tcp = ask({"run", "-n", "3", "--backend", "tcp", UNISONO_COMMAND, "info", "--schedules"});
  EXPECT_EQ(tcp.code, 0) << tcp.err;
  EXPECT_EQ(count(tcp.out, "network                     assumed: latency 20 µs"), 1) << tcp.out;  // one host has no network
  const Answer imagined = ask({"run", "-n", "2", UNISONO_COMMAND, "info", "--schedules", "--ranks", "16"});
  EXPECT_EQ(count(imagined.out, "ranks                       16 on 16 hosts\n"), 2) << imagined.out;
}

// ---- what the environment says ---------------------------------------------------------------------------------

TEST(Environment, AnUnknownVariableIsNamedOnceAndTheJobRuns) {
  const Answer answer = ask({"run", "-n", "3", RANK_HELPER, "exit", "9", "0"}, {{"UNISONO_BACKND", "tcp"}, {"UNISONO_LOG", "loud"}});
  EXPECT_EQ(answer.code, 0);
  EXPECT_EQ(answer.err,
            "[unisono] UNISONO_BACKND is unknown; did you mean UNISONO_BACKEND?\n"
            "[unisono] UNISONO_LOG=loud is unknown; it is debug, info, warning, error or off\n");
  EXPECT_EQ(ask({"run", "-n", "3", RANK_HELPER, "exit", "9", "0"}, {{"UNISONO_BACKND", "tcp"}, {"UNISONO_LOG", "error"}}).err, "");
}

TEST(Environment, ABackendThatNobodyKnowsIsRefusedBeforeARankStarts) {
  TemporaryFolder folder;
  const std::string mark = folder.path() + "/started";
  const std::string refused = refusal({"run", "-n", "2", "--backend", "natve", "/usr/bin/touch", mark});
  EXPECT_TRUE(refused.starts_with("unisono run: unknown backend \"natve\"; did you mean \"native\"? (known here: auto, native, serial, ")) << refused;
  EXPECT_NE(refused.find("--own-backend"), std::string::npos) << refused;
  const std::string of_variable = refusal({"run", "-n", "2", "/usr/bin/touch", mark}, {{"UNISONO_BACKEND", "warp"}});
  EXPECT_TRUE(of_variable.starts_with("unisono run: UNISONO_BACKEND: unknown backend \"warp\" (known here: auto, ")) << of_variable;
  EXPECT_NE(refusal({"run", "--backend", "cpu:native,cuda:ncll", "true"}).find("unknown backend \"ncll\"; did you mean \"nccl\"?"),
            std::string::npos);
  EXPECT_NE(refusal({"run", "--backend", "native,nccl:cuda", "true"}).find("write it as \"cpu:native,cuda:nccl\""), std::string::npos);
  std::ofstream(folder.path() + "/libunisono_torch.so") << "a part of the library, no plug-in";
  EXPECT_NE(refusal({"run", "--backend", "torch", "true"}, {{"UNISONO_PLUGIN_PATH", folder.path()}}).find("unknown backend \"torch\""),
            std::string::npos);
  EXPECT_FALSE(std::ifstream(mark).good());
}

TEST(Environment, AScheduleThatNobodyKnowsIsRefusedBeforeARankStarts) {
  TemporaryFolder folder;
  const std::string mark = folder.path() + "/started";
  const auto refused = [&](const char* name, const char* value) { return refusal({"run", "-n", "2", "/usr/bin/touch", mark}, {{name, value}}); };
  const std::string unknown = refused("UNISONO_SCHEDULE", "broadcast=chain,all_reduce=rnig");
  EXPECT_TRUE(unknown.starts_with("unisono run: UNISONO_SCHEDULE: all_reduce has no algorithm \"rnig\"; it has ")) << unknown;
  const std::string no_operation = refused("UNISONO_SCHEDULE", "allreduce=ring");
  EXPECT_TRUE(no_operation.starts_with("unisono run: UNISONO_SCHEDULE: \"allreduce=ring\" is not OPERATION=ALGORITHM")) << no_operation;
  EXPECT_TRUE(refused("UNISONO_NETWORK", "20,3").starts_with("unisono run: UNISONO_NETWORK: \"20,3\" is not LATENCY,GAP,BYTE"));
  EXPECT_FALSE(std::ifstream(mark).good());
  EXPECT_EQ(ask({"run", "/usr/bin/touch", mark}, {{"UNISONO_SCHEDULE", "all_reduce=ring"}, {"UNISONO_NETWORK", "20,3,0.35"}}).code, 0);
  EXPECT_TRUE(std::ifstream(mark).good());
}

TEST(Environment, ABackendThatMayBeThereIsNotRefused) {
  for (const char* name : {"auto", "native", "NATIVE", "cpu:native,cuda:nccl", "gloo"}) {
    const Answer answer = ask({"run", "--backend", name, RANK_HELPER, "variables", "UNISONO_BACKEND"});
    EXPECT_EQ(answer.code, 0) << name << answer.err;
    EXPECT_EQ(answer.out, fmt::format("[0] UNISONO_BACKEND={}\n", name));
  }
  // A plug-in need not be loaded to be known: any file of that name will do.
  TemporaryFolder folder;
  std::ofstream(folder.path() + "/libunisono_warp.so") << "not loaded here";
  EXPECT_EQ(ask({"run", "--backend", "warp", RANK_HELPER, "exit", "9", "0"}, {{"UNISONO_PLUGIN_PATH", folder.path()}}).code, 0);
  // A program that registers it itself.
  EXPECT_EQ(ask({"run", "--backend", "warp", "--own-backend", RANK_HELPER, "exit", "9", "0"}).code, 0);
  EXPECT_EQ(ask({"run", "--own-backend", RANK_HELPER, "exit", "9", "0"}, {{"UNISONO_BACKEND", "warp"}}).code, 0);
}

}  // namespace
}  // namespace unisono::testing
