// unisono-pmix serves PMIx, which Open MPI needs from its launcher. It is a process of its own because the library starts threads and opens a port on
// the loopback device, and the launcher has neither. `unisono run` starts it only for a job of backend mpi.
//
//   unisono-pmix JOB RANKS
//
// It writes the variables of every rank to standard output ("0 NAME=VALUE"), then "ready", and serves until its standard input ends.
#include <pmix.h>
#include <pmix_server.h>

#include <sys/stat.h>
#include <unistd.h>

#include <charconv>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <iostream>
#include <stdexcept>
#include <string>
#include <vector>

namespace {

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
// All ranks are on this host, so the library's own data are complete.
pmix_status_t fence(const pmix_proc_t[], size_t, const pmix_info_t[], size_t, char* data, size_t bytes, pmix_modex_cbfunc_t done, void* with) {
  if (done != nullptr)
    done(
        PMIX_SUCCESS, data, bytes, with, [](void* memory) { std::free(memory); }, data);
  return PMIX_SUCCESS;
}
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

void register_job(const std::string& job, int ranks, const std::string& folder) {
  constexpr std::size_t longest_host_name = 255;
  char host[longest_host_name + 1] = {};
  ::gethostname(host, sizeof host - 1);
  std::string all;
  for (int rank = 0; rank < ranks; ++rank) all.append(rank == 0 ? "" : ",").append(std::to_string(rank));
  const auto count = static_cast<std::uint32_t>(ranks);
  Infos infos;
  infos.add(PMIX_UNIV_SIZE, count);
  infos.add(PMIX_JOB_SIZE, count);
  infos.add(PMIX_LOCAL_SIZE, count);
  infos.add(PMIX_NODE_SIZE, count);
  infos.add(PMIX_MAX_PROCS, count);
  infos.add(PMIX_NUM_NODES, std::uint32_t{1});
  infos.add(PMIX_JOB_NUM_APPS, std::uint32_t{1});
  infos.add(PMIX_JOBID, job);
  infos.add(PMIX_LOCAL_PEERS, all);
  infos.add(PMIX_NODE_MAP, regex(PMIx_generate_regex, host));
  infos.add(PMIX_PROC_MAP, regex(PMIx_generate_ppn, all));
  infos.add(PMIX_NSDIR, folder);
  infos.add(PMIX_TMPDIR, folder);
  for (int rank = 0; rank < ranks; ++rank) {
    const auto number = static_cast<pmix_rank_t>(rank);
    const auto place = static_cast<std::uint16_t>(rank);
    Infos own;
    own.add(PMIX_RANK, &number, PMIX_PROC_RANK);
    own.add(PMIX_GLOBAL_RANK, &number, PMIX_PROC_RANK);
    own.add(PMIX_APP_RANK, &number, PMIX_PROC_RANK);
    own.add(PMIX_APPNUM, std::uint32_t{0});
    own.add(PMIX_LOCAL_RANK, place);
    own.add(PMIX_NODE_RANK, place);
    own.add(PMIX_NODEID, std::uint32_t{0});
    own.add(PMIX_HOSTNAME, host);
    infos.add(PMIX_PROC_DATA, std::move(own));
  }
  check(PMIx_server_register_nspace(job.c_str(), ranks, infos.data(), infos.size(), nullptr, nullptr), "PMIx_server_register_nspace");
}

void serve(const std::string& job, int ranks) {
  const Folder folder;
  static pmix_server_module_t module = {};
  module.client_connected = client_connected;
  module.client_finalized = client_finalized;
  module.abort = abort_job;
  module.fence_nb = fence;
  module.direct_modex = direct_modex;
  Infos infos;
  infos.add(PMIX_SERVER_TMPDIR, folder.path());
  infos.add(PMIX_SYSTEM_TMPDIR, folder.path());
  check(PMIx_server_init(&module, infos.data(), infos.size()), "PMIx_server_init");
  register_job(job, ranks, folder.path());
  for (int rank = 0; rank < ranks; ++rank) {
    pmix_proc_t process;
    PMIX_PROC_LOAD(&process, job.c_str(), static_cast<pmix_rank_t>(rank));
    check(PMIx_server_register_client(&process, ::getuid(), ::getgid(), nullptr, nullptr, nullptr), "PMIx_server_register_client");
    char** environment = nullptr;
    check(PMIx_server_setup_fork(&process, &environment), "PMIx_server_setup_fork");
    for (char** variable = environment; variable != nullptr && *variable != nullptr; ++variable) std::cout << rank << ' ' << *variable << '\n';
  }
  std::cout << "ready" << std::endl;
  char byte = 0;
  while (::read(STDIN_FILENO, &byte, 1) > 0) {
  }
  PMIx_server_finalize();
}

}  // namespace

int main(int argc, char** argv) {
  int ranks = 0;
  if (argc == 3) std::from_chars(argv[2], argv[2] + std::strlen(argv[2]), ranks);
  if (ranks < 1 || std::strlen(argv[1]) == 0 || std::strlen(argv[1]) > PMIX_MAX_NSLEN) {
    std::cerr << "usage: unisono-pmix JOB RANKS\n";
    return 2;
  }
  try {
    serve(argv[1], ranks);
  } catch (const std::exception& error) {
    std::cerr << "unisono-pmix: " << error.what() << "\n";
    return 1;
  }
  return 0;
}
