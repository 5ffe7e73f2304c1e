// The PMI server of `unisono run` with two ranks of MPICH, and the fences of PMIx between launchers. A rank that breaks the protocol loses its
// connection; the other one is answered as before, line by line; a barrier ends when both have come.
#include <sys/socket.h>

#include <map>
#include <memory>
#include <sstream>

#include "input.h"
#include "launch/mpi/pmi_server.h"
#include "launch/mpi/pmix_fences.h"

namespace unisono::fuzz {
namespace {

class Game {
 public:
  explicit Game(Input& in) : in_(in), server_({.hosts = {{"a", 2}}, .own = 0}, "job") {
    for (int rank = 0; rank < 2; ++rank) ends_.emplace_back(::dup(server_.rank_end(rank)));
    server_.started();
  }

  void play() {
    for (int turns = 0; in_.has_more() && turns < 100; ++turns) turn();
    // Rank 1 says only what MPICH says, so it is answered, whatever rank 0 has sent.
    require(ask("cmd=get_universe_size") == "cmd=universe_size size=2", "a rank is answered, whatever the other one sends");
  }

 private:
  void turn() {
    switch (in_.choice(4)) {
      case 0: return say(in_.text());
      case 1: return say("cmd=" + in_.text() + "\n");
      case 2: return say("cmd=put kvsname=job key=theirs value=" + in_.text() + "\n");
      case 3: return put();
      default: return get();
    }
  }

  void serve() {
    launcher::PollSet set;
    server_.wait_for(set);
    set.wake_within(std::chrono::milliseconds(0));
    set.wait();
  }
  /// Rank 0 sends any bytes, but for the other one's keys, and reads what it gets.
  void say(std::string bytes) {
    for (auto at = bytes.find("ours"); at != std::string::npos; at = bytes.find("ours")) bytes[at] = 'h';
    ::send(ends_[0].get(), bytes.data(), bytes.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    serve();
    char answer[4096];
    ::recv(ends_[0].get(), answer, sizeof answer, MSG_DONTWAIT);
  }
  std::string ask(const std::string& line) {
    const std::string text = line + "\n";
    require(::send(ends_[1].get(), text.data(), text.size(), MSG_NOSIGNAL) == static_cast<ssize_t>(text.size()), "the server takes a line");
    serve();
    std::string answer;
    char byte = 0;
    while (::recv(ends_[1].get(), &byte, 1, MSG_DONTWAIT) == 1 && byte != '\n') answer += byte;
    return answer;
  }
  std::string word() {
    std::string text = in_.text(40);
    for (char& c : text) c = static_cast<unsigned char>(c) <= ' ' ? '_' : c;
    return text + ".";
  }
  void put() {
    const std::string key = "ours" + std::to_string(in_.choice(7)), value = word();
    require(ask("cmd=put kvsname=job key=" + key + " value=" + value) == "cmd=put_result rc=0 msg=success", "a value is taken");
    kept_[key] = value;
  }
  void get() {
    for (const auto& [key, value] : kept_) {
      const std::string answer = ask("cmd=get kvsname=job key=" + key);
      require(answer == "cmd=get_result rc=0 msg=success value=" + value, "a value comes back");
    }
  }

  Input& in_;
  launcher::PmiServer server_;
  std::vector<base::FileDescriptor> ends_;
  std::map<std::string, std::string> kept_;
};

/// Two hosts with a rank each; the input is what the launcher says to one of them.
void check_fences(Input& in) {
  std::ostringstream to_launcher;
  launcher::Fences fences(0, {1, 1}, to_launcher);
  int begun = 0, done = 0;
  while (in.has_more()) {
    if (in.flag()) {
      const std::string data = in.text();
      to_launcher.str("");
      fences.come(in.flag() ? std::vector<int>{1, 0} : std::vector<int>(), data, [&](std::string_view) { ++done; });
      ++begun;
      std::istringstream line(to_launcher.str());
      std::string kind, name, among, text;
      line >> kind >> name >> among >> text;
      require(kind == "fence" && among == "0,1" && text.size() == 2 * data.size(), "a fence says what its ranks have said");
      if (in.flag()) fences.hear("fence " + name + " " + text + in.text(3));
    } else {
      fences.hear((in.flag() ? "fence " : "") + in.text());
    }
  }
  require(done <= begun, "no fence ends twice");
}

}  // namespace

void check_input(std::string_view bytes) {
  Input in(bytes);
  if (in.choice(3) == 0) return check_fences(in);
  Game(in).play();
}

}  // namespace unisono::fuzz
