// Checkpoints that are not what they should be, and places that cannot be written to: a typed error on every rank that names the file or the
// parameter, and nothing is changed.
#include <sched.h>
#include <sys/mount.h>
#include <sys/resource.h>

#include <csignal>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "checkpoint_training.h"

namespace unisono::checkpoint_test {
namespace {

namespace fs = std::filesystem;

/// Loads into a training that must stay as it was; returns what was said.
template <class E>
std::string refused(const fs::path& path, const CheckpointOptions& options = {}) {
  Training training(33 + rank());
  training.train(0, 1);
  const auto before = training.tensors();
  const std::string text = refusal<E>([&] { load_checkpoint(path, training.model, *training.optimizer, options); });
  EXPECT_TRUE(same(training.tensors(), before));
  EXPECT_EQ(all_reduce(1), world_size());  // the group is as good as ever
  return text;
}

TEST(TorchCheckpointRefused, AFileThatIsCutOrDamaged) {
  torch::set_num_threads(1);
  const Folder folder;
  const fs::path path = folder / "state";
  run_threads(3, [&] {
    Training training(1);
    training.train(0, 2);
    save_checkpoint(path, training.model, *training.optimizer, {.epoch = 1});
  });
  const std::string whole = content(path);
  ASSERT_GT(whole.size(), 2000U);
  for (const std::size_t size :
       {std::size_t{0}, std::size_t{1}, std::size_t{8}, std::size_t{30}, std::size_t{48}, whole.size() / 2, whole.size() - 1}) {
    write(path, whole.substr(0, size));
    run_threads(3, [&] {
      const std::string text = refused<CheckpointError>(path);
      EXPECT_NE(text.find(path.string()), std::string::npos) << text;
      EXPECT_NE(text.find("cut short"), std::string::npos) << size << ": " << text;
    });
  }
  for (const std::size_t at : {std::size_t{9}, std::size_t{20}, std::size_t{60}, whole.size() / 2, whole.size() - 1}) {
    std::string damaged = whole;
    damaged[at] = static_cast<char>(damaged[at] ^ 16);
    write(path, damaged);
    run_threads(2, [&] { EXPECT_NE(refused<CheckpointError>(path).find("damaged"), std::string::npos) << at; });
  }
  write(path, whole + "x");
  run_threads(2, [&] { EXPECT_NE(refused<CheckpointError>(path).find("after its end"), std::string::npos); });
  write(path, "PK\3\4 somebody else's file, which is longer than the head of one of ours");
  run_threads(2, [&] { EXPECT_NE(refused<CheckpointError>(path).find("not a checkpoint of unisono"), std::string::npos); });
  fs::remove(path);
  run_threads(2, [&] {
    EXPECT_NE(refused<CheckpointError>(path).find("No such file"), std::string::npos);
    EXPECT_FALSE(checkpoint_exists(path));
    try {
      Training training(1);
      load_checkpoint(path, training.model);
    } catch (const CheckpointError& error) {
      EXPECT_EQ(error.path(), path);
      EXPECT_EQ(error.operation(), rank() == 0 ? "" : "load_checkpoint");
    }
  });
}

TEST(TorchCheckpointRefused, AFolderOfAnotherWorldOrWithoutAPartIsRefused) {
  const Folder folder;
  const fs::path path = folder / "state";
  const auto save = [&](double seed) {
    run_threads(3, [&] {
      Training training(seed, true);
      training.train(0, 1);
      save_checkpoint(path, training.model, *training.optimizer, {}, {.sharded = true});
    });
  };
  save(1);
  for (const int ranks : {1, 2, 4}) {
    run_threads(ranks, [&] {
      const std::string text = refused<InvalidArgument>(path);
      EXPECT_NE(text.find("was written by 3 ranks, and this is a job of " + std::to_string(ranks)), std::string::npos) << text;
    });
  }
  run_threads(3, [&] {
    EXPECT_NE(refused<InvalidArgument>(path).find("shares"), std::string::npos);  // into an optimizer that is whole
    EXPECT_NE(refused<CheckpointError>(path / "1.rank-1-of-3").find("one file of a sharded one"), std::string::npos);
  });
  const std::string other = content(path / "1.rank-1-of-3");
  save(2);
  write(path / "2.rank-1-of-3", other);
  run_threads(3, [&] {
    Training training(7, true);
    const std::string text = refusal<CheckpointError>([&] { load_checkpoint(path, training.model, *training.optimizer); });
    EXPECT_NE(text.find("2.rank-1-of-3"), std::string::npos) << text;
  });
  fs::remove(path / "2.rank-1-of-3");
  run_threads(3, [&] {
    const std::string text = refused<CheckpointError>(path);
    EXPECT_NE(text.find("2.rank-1-of-3"), std::string::npos) << text;
    EXPECT_NE(text.find("No such file"), std::string::npos) << text;
  });
  fs::remove(path / "index");
  run_threads(3, [&] { EXPECT_NE(refused<CheckpointError>(path).find("index"), std::string::npos); });
}

TEST(TorchCheckpointRefused, AModelOrOptimizerThatIsAnother) {
  const Folder folder;
  const fs::path path = folder / "state";
  run_threads(2, [&] {
    Training training(1);
    save_checkpoint(path, training.model, *training.optimizer);
    save_checkpoint(folder / "model", training.model);
    const auto load = [&](auto& model) { return refusal<InvalidArgument>([&] { load_checkpoint(path, model); }); };
    Net wider(3, 9);
    EXPECT_NE(load(wider).find("first.weight is Float [5, 6] in the checkpoint " + path.string() + ", and Float [9, 6] in the model"),
              std::string::npos);
    Net finer(3);
    finer->last->to(torch::kDouble);
    EXPECT_NE(load(finer).find("last.weight is Float [3, 5]"), std::string::npos) << load(finer);
    Net longer(3);
    longer->register_parameter("extra", torch::zeros({2}));
    EXPECT_NE(load(longer).find("the model has extra"), std::string::npos);
    struct FirstImpl : torch::nn::Module {
      FirstImpl() { register_module("first", torch::nn::Linear(6, 5)); }
    } first;
    EXPECT_NE(load(first).find("has norm.weight, and the model has not"), std::string::npos) << load(first);
    // on one rank only: all ranks hear of it
    Net either(3, rank() == 1 ? 9 : 5);
    EXPECT_NE(load(either).find("first.weight"), std::string::npos);

    const auto load_with = [&](const fs::path& from, torch::optim::Optimizer& optimizer) {
      return refusal<InvalidArgument>([&] { load_checkpoint(from, training.model, optimizer); });
    };
    torch::optim::SGD sgd(training.model->parameters(), 0.1);
    EXPECT_NE(load_with(path, sgd).find("the optimizer is torch::optim::SGD"), std::string::npos);
    std::vector<torch::Tensor> fewer = training.model->parameters();
    fewer.pop_back();
    torch::optim::Adam adam(fewer);
    EXPECT_NE(load_with(path, adam).find("parameter 5 of group 0: Float [3]"), std::string::npos) << load_with(path, adam);
    EXPECT_NE(load_with(folder / "model", *training.optimizer).find("no optimizer"), std::string::npos);
    EXPECT_EQ(all_reduce(1), 2);
  });
}

TEST(TorchCheckpointRefused, APlaceThatCannotBeWrittenTo) {
  const Folder folder;
  write(folder / "file", "");
  run_threads(2, [&] {
    Training training(1);
    const auto save = [&](const fs::path& to, bool sharded) {
      return [&, to, sharded] { save_checkpoint(to, training.model, *training.optimizer, {}, {.sharded = sharded}); };
    };
    EXPECT_NE(refusal<CheckpointError>(save(folder / "none" / "state", false)).find("No such file"), std::string::npos);
    EXPECT_NE(refusal<CheckpointError>(save(folder / "file" / "state", false)).find("Not a directory"), std::string::npos);
    EXPECT_NE(refusal<InvalidArgument>(save(folder.path(), false)).find("is a folder"), std::string::npos);
    EXPECT_NE(refusal<InvalidArgument>(save(folder / "file", true)).find("is no folder"), std::string::npos);
    EXPECT_NE(refusal<CheckpointError>(save(folder / "file" / "state", true)).find("Not a directory"), std::string::npos);
    EXPECT_EQ(all_reduce(1), 2);
  });
  EXPECT_EQ(std::distance(fs::directory_iterator(folder.path()), fs::directory_iterator()), 1);
}

/// Files of this process are no longer than that, and who writes more is told so.
class FileLimit {
 public:
  explicit FileLimit(rlim_t bytes) : action_(std::signal(SIGXFSZ, SIG_IGN)) {
    getrlimit(RLIMIT_FSIZE, &before_);
    const rlimit limit{bytes, before_.rlim_max};
    setrlimit(RLIMIT_FSIZE, &limit);
  }
  ~FileLimit() {
    setrlimit(RLIMIT_FSIZE, &before_);
    std::signal(SIGXFSZ, action_);
  }
  FileLimit(const FileLimit&) = delete;
  FileLimit& operator=(const FileLimit&) = delete;

 private:
  void (*action_)(int);
  rlimit before_ = {};
};

TEST(TorchCheckpointRefused, ADiskThatIsFull) {
  const Folder folder;
  for (const bool sharded : {false, true}) {
    const fs::path path = folder / (sharded ? "folder" : "file");
    std::vector<torch::Tensor> saved;
    const auto save = [&](int step) {
      Training training(step, true);
      training.train(0, step);
      save_checkpoint(path, training.model, *training.optimizer, {.step = step}, {.sharded = sharded});
      return training.tensors();
    };
    run_threads(2, [&] {
      const auto tensors = save(1);
      if (rank() == 0) saved = tensors;
    });
    {
      const FileLimit limit(1500);
      run_threads(2, [&] { EXPECT_NE(refusal<CheckpointError>([&] { save(2); }).find("File too large"), std::string::npos); });
    }
    run_threads(2, [&] {
      Training training(9, true);
      EXPECT_EQ(load_checkpoint(path, training.model, *training.optimizer).step, 1);
      EXPECT_TRUE(same(training.tensors(), saved));
    });
  }
}

TEST(TorchCheckpointRefused, AFileSystemThatIsFull) {
  const Folder folder;
  if (::unshare(CLONE_NEWNS) != 0 || ::mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0 ||
      ::mount("small", folder.path().c_str(), "tmpfs", 0, "size=4k") != 0) {
    GTEST_SKIP() << "skipped: a small file system of one's own needs root";
  }
  const fs::path path = folder / "file";
  write(folder / "all the room", std::string(4096, 'x'));
  run_threads(2, [&] {
    Training training(1, true);
    const std::string text = refusal<CheckpointError>([&] { save_checkpoint(path, training.model, *training.optimizer, {.step = 1}); });
    EXPECT_NE(text.find("No space left on device"), std::string::npos) << text;
    EXPECT_NE(text.find(path.string()), std::string::npos) << text;
  });
  EXPECT_EQ(std::distance(fs::directory_iterator(folder.path()), {}), 1) << "something is left of the checkpoint that failed";
  ::umount(folder.path().c_str());
}

TEST(TorchCheckpointRefused, WhatALinkBesideItPointsToIsNotTouched) {
  const Folder folder;
  const fs::path path = folder / "file", others = folder / "others", link = folder / "file.partial";
  std::ofstream(others) << "of somebody else";
  fs::create_symlink(others, link);
  run_threads(2, [&] {
    Training training(1, true);
    save_checkpoint(path, training.model, *training.optimizer, {.step = 1});
    EXPECT_EQ(load_checkpoint(path, training.model, *training.optimizer).step, 1);
  });
  std::string text;
  std::ifstream read(others);
  std::getline(read, text);
  EXPECT_EQ(text, "of somebody else");
  EXPECT_EQ(std::distance(fs::directory_iterator(folder.path()), {}), 3) << "something is left beside the checkpoint";
}

}  // namespace
}  // namespace unisono::checkpoint_test
