// unisono-pmix serves PMIx, which Open MPI needs from its launcher. It is a process of its own because the library starts threads and opens a port on
// the loopback device, and the launcher has neither. `unisono run` starts it only for a job of backend mpi.
//
//   unisono-pmix JOB OWN HOST=RANKS...
//
// JOB is the name of the job, the rest its hosts in the order of their ranks, and OWN the index of this one. It writes the variables of this host's
// ranks to standard output ("0 NAME=VALUE"), then "ready", and serves until its standard input ends. On several hosts it writes "fence NAME HOST,HOST
// DATA" where all ranks of this host have come to a fence of ranks on these hosts, and reads "fence NAME DATA" with the data of all of them.
#include <pmix.h>
#include <pmix_server.h>

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <iostream>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "launch/mpi/mpi_places.h"
#include "launch/mpi/pmix_fences.h"

namespace {

using unisono::launcher::Fences;
using unisono::launcher::MpiPlaces;

Fences* fences = nullptr;  // never destroyed: the library's threads use them

void check(pmix_status_t status, const char* call) {
  if (status != PMIX_SUCCESS && status != PMIX_OPERATION_SUCCEEDED)
    throw std::runtime_error(std::string(call) + " failed: " + PMIx_Error_string(status));
}

// ---- callbacks of the library ---------------------------------------------------------------------------------

pmix_status_t client_connected(const pmix_proc_t*, void*, pmix_op_cbfunc_t, void*) { return PMIX_OPERATION_SUCCEEDED; }
pmix_status_t client_finalized(const pmix_proc_t*, void*, pmix_op_cbfunc_t, void*) { return PMIX_OPERATION_SUCCEEDED; }
// The rank ends with its code afterwards, and the launcher sees that.
pmix_status_t abort_job(const pmix_proc_t*, void*, int, const char[], pmix_proc_t[], size_t, pmix_op_cbfunc_t, void*) {
  return PMIX_OPERATION_SUCCEEDED;
}
pmix_status_t fence(const pmix_proc_t processes[], size_t count, const pmix_info_t[], size_t, char* data, size_t bytes, pmix_modex_cbfunc_t done,
                    void* with) {
  std::vector<int> among;
  for (std::size_t i = 0; i < count; ++i) {
    if (processes[i].rank == PMIX_RANK_WILDCARD) {
      among.clear();
      break;
    }
    among.push_back(static_cast<int>(processes[i].rank));
  }
  fences->come(std::move(among), {data != nullptr ? data : "", data != nullptr ? bytes : 0}, [done, with](std::string_view all) {
    if (done == nullptr) return;
    auto* const copy = static_cast<char*>(std::malloc(std::max<std::size_t>(all.size(), 1)));
    std::memcpy(copy, all.data(), all.size());
    done(
        PMIX_SUCCESS, copy, all.size(), with, [](void* memory) { std::free(memory); }, copy);
  });
  std::free(data);
  return PMIX_SUCCESS;
}
// A fence has collected all that ranks tell each other.
pmix_status_t direct_modex(const pmix_proc_t*, const pmix_info_t[], size_t, pmix_modex_cbfunc_t, void*) { return PMIX_ERR_NOT_FOUND; }

// ---- information for the library ------------------------------------------------------------------------------

/// A list of pmix_info_t that owns its content.
class Infos {
 public:
  void add(const char* key, const void* value, pmix_data_type_t type) {
    pmix_info_t info;
    PMIX_INFO_CONSTRUCT(&info);
    PMIX_INFO_LOAD(&info, key, value, type);
    infos_.push_back(info);
  }
  void add(const char* key, std::uint32_t value) { add(key, &value, PMIX_UINT32); }
  void add(const char* key, std::uint16_t value) { add(key, &value, PMIX_UINT16); }
  void add(const char* key, const std::string& value) { add(key, value.c_str(), PMIX_STRING); }
  /// Adds an array of infos as the value of one info.
  void add(const char* key, Infos&& part) {
    pmix_data_array_t* array = nullptr;
    PMIX_DATA_ARRAY_CREATE(array, part.size(), PMIX_INFO);
    auto* const elements = static_cast<pmix_info_t*>(array->array);
    for (std::size_t i = 0; i < part.size(); ++i) elements[i] = part.infos_[i];
    part.infos_.clear();
    pmix_info_t info;
    PMIX_INFO_CONSTRUCT(&info);
    std::strncpy(info.key, key, PMIX_MAX_KEYLEN);
    info.value.type = PMIX_DATA_ARRAY;
    info.value.data.darray = array;
    infos_.push_back(info);
  }
  pmix_info_t* data() { return infos_.data(); }
  std::size_t size() const { return infos_.size(); }

 private:
  std::vector<pmix_info_t> infos_;  // never freed: the process serves one job, and the library keeps parts of them
};

std::string regex(pmix_status_t (*make)(const char*, char**), const std::string& text) {
  char* result = nullptr;
  check(make(text.c_str(), &result), "PMIx_generate_regex");
  return result;
}

/// A folder for the library's files, removed by the destructor.
class Folder {
 public:
  Folder() {
    const char* const base = std::getenv("TMPDIR");
    path_ = std::string(base != nullptr && *base != '\0' ? base : "/tmp") + "/unisono-pmix-XXXXXX";
    if (::mkdtemp(path_.data()) == nullptr) throw std::runtime_error("cannot make the folder " + path_ + ": " + std::strerror(errno));
  }
  ~Folder() {
    std::error_code error;
    std::filesystem::remove_all(path_, error);
  }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

/// Adds what is known of each rank of a host.
void add_ranks(const MpiPlaces& places, int host, Infos& infos) {
  const MpiPlaces::Host& place = places.hosts[static_cast<std::size_t>(host)];
  for (int local = 0; local < place.ranks; ++local) {
    const auto number = static_cast<pmix_rank_t>(places.first_rank_of(host) + local);
    const auto among_its_host = static_cast<std::uint16_t>(local);
    Infos own;
    own.add(PMIX_RANK, &number, PMIX_PROC_RANK);
    own.add(PMIX_GLOBAL_RANK, &number, PMIX_PROC_RANK);
    own.add(PMIX_APP_RANK, &number, PMIX_PROC_RANK);
    own.add(PMIX_APPNUM, std::uint32_t{0});
    own.add(PMIX_LOCAL_RANK, among_its_host);
    own.add(PMIX_NODE_RANK, among_its_host);
    own.add(PMIX_NODEID, static_cast<std::uint32_t>(host));
    own.add(PMIX_HOSTNAME, place.name);
    infos.add(PMIX_PROC_DATA, std::move(own));
  }
}

void register_job(const std::string& job, const MpiPlaces& places, const std::string& folder) {
  std::string hosts, ranks, peers;  // "a,b", "0,1;2,3", "2,3"
  for (int host = 0; host < static_cast<int>(places.hosts.size()); ++host) {
    std::string here;
    const int first = places.first_rank_of(host), end = places.first_rank_of(host + 1);
    for (int rank = first; rank < end; ++rank) here.append(here.empty() ? "" : ",").append(std::to_string(rank));
    hosts.append(hosts.empty() ? "" : ",").append(places.hosts[static_cast<std::size_t>(host)].name);
    ranks.append(ranks.empty() ? "" : ";").append(here);
    if (host == places.own) peers = here;
  }
  const auto world = static_cast<std::uint32_t>(places.world_size()), local = static_cast<std::uint32_t>(places.ranks());
  Infos infos;
  infos.add(PMIX_UNIV_SIZE, world);
  infos.add(PMIX_JOB_SIZE, world);
  infos.add(PMIX_LOCAL_SIZE, local);
  infos.add(PMIX_NODE_SIZE, local);
  infos.add(PMIX_MAX_PROCS, world);
  infos.add(PMIX_NUM_NODES, static_cast<std::uint32_t>(places.hosts.size()));
  infos.add(PMIX_JOB_NUM_APPS, std::uint32_t{1});
  infos.add(PMIX_JOBID, job);
  infos.add(PMIX_LOCAL_PEERS, peers);
  infos.add(PMIX_NODE_MAP, regex(PMIx_generate_regex, hosts));
  infos.add(PMIX_PROC_MAP, regex(PMIx_generate_ppn, ranks));
  infos.add(PMIX_NSDIR, folder);
  infos.add(PMIX_TMPDIR, folder);
  for (int host = 0; host < static_cast<int>(places.hosts.size()); ++host) add_ranks(places, host, infos);
  check(PMIx_server_register_nspace(job.c_str(), places.ranks(), infos.data(), infos.size(), nullptr, nullptr), "PMIx_server_register_nspace");
}

void serve(const std::string& job, const MpiPlaces& places) {
  const Folder folder;
  std::vector<int> ranks;
  for (const MpiPlaces::Host& host : places.hosts) ranks.push_back(host.ranks);
  fences = new Fences(places.own, std::move(ranks), std::cout);
  static pmix_server_module_t module = {};
  module.client_connected = client_connected;
  module.client_finalized = client_finalized;
  module.abort = abort_job;
  module.fence_nb = fence;
  module.direct_modex = direct_modex;
  Infos infos;
  infos.add(PMIX_SERVER_TMPDIR, folder.path());
  infos.add(PMIX_SYSTEM_TMPDIR, folder.path());
  infos.add(PMIX_HOSTNAME, places.hosts[static_cast<std::size_t>(places.own)].name);
  check(PMIx_server_init(&module, infos.data(), infos.size()), "PMIx_server_init");
  register_job(job, places, folder.path());
  for (int rank = 0; rank < places.ranks(); ++rank) {
    pmix_proc_t process;
    PMIX_PROC_LOAD(&process, job.c_str(), static_cast<pmix_rank_t>(places.first_rank() + rank));
    check(PMIx_server_register_client(&process, ::getuid(), ::getgid(), nullptr, nullptr, nullptr), "PMIx_server_register_client");
    char** environment = nullptr;
    check(PMIx_server_setup_fork(&process, &environment), "PMIx_server_setup_fork");
    for (char** variable = environment; variable != nullptr && *variable != nullptr; ++variable) std::cout << rank << ' ' << *variable << '\n';
  }
  std::cout << "ready" << std::endl;
  for (std::string line; std::getline(std::cin, line);) fences->hear(line);
  PMIx_server_finalize();
}

/// Reads "OWN HOST=RANKS..."; empty where that is not what was given.
std::optional<MpiPlaces> places_of(int argc, char** argv) {
  constexpr int first_host = 3;
  if (argc <= first_host) return std::nullopt;
  const auto number_of = [](std::string_view text) {
    int number = -1;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
    return error == std::errc() && end == text.data() + text.size() ? number : -1;
  };
  MpiPlaces places;
  for (int i = first_host; i < argc; ++i) {
    const std::string_view word = argv[i];
    const std::size_t equals = word.rfind('=');
    const int ranks = equals == std::string_view::npos ? -1 : number_of(word.substr(equals + 1));
    if (equals == 0 || ranks < 1) return std::nullopt;
    places.hosts.push_back({.name = std::string(word.substr(0, equals)), .ranks = ranks});
  }
  places.own = number_of(argv[2]);
  if (places.own < 0 || places.own >= static_cast<int>(places.hosts.size())) return std::nullopt;
  return places;
}

}  // namespace

int main(int argc, char** argv) {
  const std::optional<MpiPlaces> places = places_of(argc, argv);
  if (!places || std::strlen(argv[1]) == 0 || std::strlen(argv[1]) > PMIX_MAX_NSLEN) {
    std::cerr << "usage: unisono-pmix JOB OWN HOST=RANKS...\n";
    return 2;
  }
  try {
    serve(argv[1], *places);
  } catch (const std::exception& error) {
    std::cerr << "unisono-pmix: " << error.what() << "\n";
    return 1;
  }
  return 0;
}
