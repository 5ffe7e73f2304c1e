// What goes wrong with tensors on workers, and what stays usable.

#include <torch/library.h>

#include "covers.h"
#include "remote_world.h"
#include "thrown_by.h"

namespace unisono::remote_testing {
namespace {

#define EXPECT_SAYS(error, part)                                                    \
  do {                                                                              \
    const std::string said = (error).what();                                        \
    EXPECT_NE(said.find(part), std::string::npos) << said << "\nlacks: " << (part); \
  } while (false)

TEST(RemoteTensorErrors, AnErrorThatShapesShowIsThrownAtOnce) {
  with_workers(2, [](const Controller& workers) {
    const torch::Tensor there = workers[1].tensor(torch::ones({2, 3}));
    const auto error = thrown_by<RemoteError>([&] { static_cast<void>(there.mm(there)); });
    EXPECT_SAYS(error, "operator aten::mm on worker 1 failed");
    EXPECT_SAYS(error, "Float[2, 3], Float[2, 3]");
    EXPECT_SAYS(error, "[culprit: worker 1]");
    EXPECT_EQ(error.type(), "c10::Error");
    EXPECT_EQ(there.sum().item<float>(), 6);
  });
}

TEST(RemoteTensorErrors, AnErrorOfElementsIsThrownByTheNextCallThatWaits) {
  with_workers(2, [](const Controller& workers) {
    const torch::Tensor there = workers[0].tensor(torch::ones({2, 3})), elsewhere = workers[1].tensor(torch::ones({3}));
    const torch::Tensor wrong = there.gather(1, workers[0].tensor(torch::tensor({{5}, {1}})));
    const torch::Tensor dependent = wrong * 2;
    EXPECT_EQ(dependent.sizes(), (std::vector<std::int64_t>{2, 1}));
    EXPECT_EQ(elsewhere.sum().item<float>(), 3);
    const auto error = thrown_by<RemoteError>([&] { static_cast<void>(there.cpu()); });
    EXPECT_SAYS(error, "operator aten::gather on worker 0 failed: index 5 is out of bounds");
    EXPECT_SAYS(error, "Float[2, 3], Long[2, 1]");
    EXPECT_TRUE(torch::equal(there.cpu(), torch::ones({2, 3})));
    EXPECT_SAYS(thrown_by<RemoteError>([&] { static_cast<void>(dependent.cpu()); }), "aten::gather");
    EXPECT_NO_THROW(synchronize(remote(0)));
  });
}

TEST(RemoteTensorErrors, WhatCouldNotBeChangedByATensorThatHasFailedIsToldAgain) {
  with_workers(1, [](const Controller& workers) {
    const torch::Tensor wrong = workers[0].tensor(torch::ones({3})).gather(0, workers[0].tensor(torch::tensor({5})));
    torch::Tensor total = workers[0].tensor(torch::ones({3}));
    EXPECT_THROW(synchronize(remote(0)), RemoteError);
    total.add_(wrong);
    EXPECT_SAYS(thrown_by<RemoteError>([&] { static_cast<void>(total.cpu()); }), "operator aten::gather on worker 0 failed");
    EXPECT_SAME(total, torch::ones({3}));
  });
}

TEST(RemoteTensorErrors, AnOperatorWhoseFirstCallIsLeftOutIsKnownAfterwards) {
  with_workers(1, [](const Controller& workers) {
    const torch::Tensor three = workers[0].tensor(torch::ones({3}));
    static_cast<void>(three.gather(0, workers[0].tensor(torch::tensor({5}))));
    EXPECT_THROW(static_cast<void>(three.nonzero()), RemoteError);  // of gather
    for (int i = 0; i < 3; ++i) EXPECT_SAME(three.nonzero(), torch::ones({3}).nonzero());
  });
}

TEST(RemoteTensorErrors, SynchronizeThrowsTheFirstOfSeveral) {
  with_workers(1, [](const Controller& workers) {
    const torch::Tensor indices = workers[0].tensor(torch::tensor({5})), three = workers[0].tensor(torch::ones({3}));
    static_cast<void>(three.gather(0, indices));
    static_cast<void>(three.scatter(0, indices, 1.0));
    EXPECT_SAYS(thrown_by<RemoteError>([&] { synchronize(remote(0)); }), "operator aten::gather");
    EXPECT_NO_THROW(synchronize(remote(0)));
  });
}

TEST(RemoteTensorErrors, ATensorThatHasFailedFailsWhereItIsMovedTo) {
  with_workers(2, [](const Controller& workers) {
    const torch::Tensor wrong = workers[0].tensor(torch::ones({3})).gather(0, workers[0].tensor(torch::tensor({5})));
    const torch::Tensor moved = wrong.to(remote(1)), other = workers[1].tensor(torch::ones({3}));
    EXPECT_SAYS(thrown_by<RemoteError>([&] { synchronize(remote(1)); }), "operator aten::gather on worker 0 failed");
    EXPECT_SAYS(thrown_by<RemoteError>([&] { static_cast<void>((moved + 1).cpu()); }), "operator aten::gather on worker 0 failed");
    EXPECT_SAYS(thrown_by<RemoteError>([&] { synchronize(remote(0)); }), "operator aten::gather on worker 0 failed");
    EXPECT_SAME(other.to(remote(0)), torch::ones({3}));
  });
}

TEST(RemoteTensorErrors, AnErrorInBackwardComesToItsCaller) {
  with_workers(1, [](const Controller& workers) {
    const torch::Tensor there = workers[0].tensor(torch::ones({3})).requires_grad_();
    const torch::Tensor sum = there.gather(0, workers[0].tensor(torch::tensor({5}))).sum();
    sum.backward();
    EXPECT_SAYS(thrown_by<RemoteError>([&] { static_cast<void>(there.grad().cpu()); }), "operator aten::gather on worker 0 failed");
  });
}

TEST(RemoteTensorErrors, TensorsOfSeveralPlacesAreRefused) {
  with_workers(2, [](const Controller& workers) {
    const torch::Tensor first = workers[0].tensor(torch::ones({3})), second = workers[1].tensor(torch::ones({3}));
    const auto error = thrown_by<InvalidArgument>([&] { static_cast<void>(first + second); });
    EXPECT_SAYS(error, "operator aten::add.Tensor: its tensors are on remote:0 and remote:1");
    EXPECT_SAYS(error, "to(\"remote:0\") moves the other");
    EXPECT_SAYS(thrown_by<InvalidArgument>([&] { static_cast<void>(first + torch::ones({3})); }), "a tensor of shape [3] is on cpu");
    const auto generator = at::globalContext().defaultGenerator(remote(1));
    EXPECT_SAYS(thrown_by<InvalidArgument>([&] { static_cast<void>(torch::randn({3}, generator, remote(0))); }), "remote:0 and remote:1");
    const auto own = at::detail::createCPUGenerator();
    EXPECT_SAYS(thrown_by<InvalidArgument>([&] { static_cast<void>(torch::randn({3}, own, remote(0))); }), "its generator is on cpu");
  });
}

TEST(RemoteTensorErrors, ANumberOnTheCpuIsNotWrittenTo) {
  with_workers(1, [](const Controller& workers) {
    const torch::Tensor there = workers[0].tensor(torch::tensor(2.F));
    torch::Tensor total = torch::tensor(1.F);
    for (int i = 0; i < 2; ++i) {  // a second call finds what the first one has kept
      const auto error = thrown_by<InvalidArgument>([&] { total += there; });
      EXPECT_SAYS(error, "operator aten::add_.Tensor would write to a tensor on cpu, and its others are on remote:0");
      EXPECT_SAYS(error, "cpu() or item() fetches the other");
    }
    EXPECT_THROW(torch::mul_out(total, there, there), InvalidArgument);
    EXPECT_THROW(at::_foreach_add_({total}, {there}), InvalidArgument);
    EXPECT_EQ(total.item<float>(), 1);
    EXPECT_SAME(there + total, torch::tensor(3.F));
  });
}

TEST(RemoteTensorErrors, AWorkerThatIsNotThereIsNamed) {
  with_workers(2, [](const Controller&) {
    EXPECT_SAYS(thrown_by<InvalidArgument>([&] { static_cast<void>(torch::ones({3}, remote(2))); }),
                "there is no device remote:2: the controller has 2 workers");
    EXPECT_SAYS(thrown_by<InvalidArgument>([&] { synchronize(remote(7)); }), "there is no device remote:7");
  });
}

TEST(RemoteTensorErrors, ElementsHaveNoPointer) {
  with_workers(1, [](const Controller& workers) {
    const torch::Tensor there = workers[0].tensor(torch::ones({3}));
    EXPECT_SAYS(thrown_by<c10::Error>([&] { static_cast<void>(there.data_ptr<float>()); }),
                "there is no pointer to them here; cpu() fetches the elements");
    EXPECT_SAYS(thrown_by<c10::Error>([&] { static_cast<void>(there.const_data_ptr()); }), "there is no pointer to them here");
    EXPECT_SAYS(thrown_by<InvalidArgument>([&] { all_reduce(there); }), "tensors on remote:0 cannot be communicated");
  });
}

TEST(RemoteTensorErrors, ATensorInACallOfAnotherWorkerIsRefusedThere) {
  with_workers(2, [](const Controller& workers) {
    const torch::Tensor there = workers[0].tensor(torch::ones({3}));
    EXPECT_SAYS(thrown_by<InvalidArgument>([&] { workers[1].call(sum_there, there).get(); }), "a tensor on remote:0 was sent to worker 1");
    const auto both = workers.call(sum_there, there);
    EXPECT_EQ(both[0].get(), 3);
    EXPECT_THROW(both[1].get(), InvalidArgument);
  });
}

TEST(RemoteTensorErrors, ATensorThatHasFailedFailsTheCallThatItIsGivenTo) {
  with_workers(1, [](const Controller& workers) {
    const torch::Tensor wrong = workers[0].tensor(torch::ones({3})).gather(0, workers[0].tensor(torch::tensor({5})));
    EXPECT_SAYS(thrown_by<RemoteError>([&] { workers[0].call(sum_there, wrong).get(); }), "operator aten::gather on worker 0 failed");
  });
}

TEST(RemoteTensorErrors, ATensorThatOutlivesItsControllerSaysSo) {
  torch::Tensor left;
  with_workers(1, [&](const Controller& workers) { left = workers[0].tensor(torch::ones({3})); });
  EXPECT_SAYS(thrown_by<NotInitialized>([&] { static_cast<void>(left.cpu()); }), "its controller has ended");
  EXPECT_SAYS(thrown_by<NotInitialized>([&] { static_cast<void>(left + 1); }), "its controller has ended");
  EXPECT_SAYS(thrown_by<NotInitialized>([&] { static_cast<void>(torch::ones({3}, remote(0))); }), "there is no controller");
  with_workers(1, [&](const Controller& workers) {
    EXPECT_THROW(static_cast<void>(left + workers[0].tensor(torch::ones({3}))), Error);
    EXPECT_THROW(static_cast<void>(left.cpu()), NotInitialized);
  });
  left.reset();
}

at::Tensor known_here(const at::Tensor& x) { return x + 1; }

TORCH_LIBRARY(remote_testing, library) {
  library.def("no_kernel(Tensor x) -> Tensor");
  library.def("known(Tensor x) -> Tensor");
  library.def("viewing(Tensor(a) x) -> Tensor(a)");
  library.impl("known", c10::DispatchKey::CPU, known_here);
}

at::Tensor called(const char* name, const at::Tensor& x) {
  return c10::Dispatcher::singleton().findSchemaOrThrow(name, "").typed<at::Tensor(const at::Tensor&)>().call(x);
}

TEST(RemoteTensorErrors, AnOperatorWithoutAKernelThereIsNamed) {
  with_workers(1, [](const Controller& workers) {
    const torch::Tensor there = workers[0].tensor(torch::ones({3}));
    const auto error = thrown_by<RemoteError>([&] { called("remote_testing::no_kernel", there); });
    EXPECT_SAYS(error, "operator remote_testing::no_kernel on worker 0 failed: Could not run 'remote_testing::no_kernel'");
    EXPECT_SAYS(thrown_by<Unsupported>([&] { called("remote_testing::viewing", there); }), "remote_testing::viewing returns a view");
  });
}

TEST(RemoteTensorErrors, AnOperatorOfAProgramsOwnNeedsNoKernelHere) {
  with_workers(1, [](const Controller& workers) {
    const torch::Tensor there = workers[0].tensor(torch::ones({3}));
    for (int i = 0; i < 3; ++i) EXPECT_SAME(called("remote_testing::known", there), torch::full({3}, 2.F));
  });
}

TEST(RemoteTensorErrors, SparseAndQuantizedTensorsAndPinnedMemoryAreRefused) {
  with_workers(1, [](const Controller& workers) {
    const torch::Tensor there = workers[0].tensor(torch::ones({3}));
    EXPECT_THROW(static_cast<void>(there.to_sparse().cpu()), Error);
    EXPECT_THROW(static_cast<void>(torch::quantize_per_tensor(there, 0.1, 0, torch::kQInt8).cpu()), Error);
    EXPECT_THROW(static_cast<void>(torch::ones({3}).to_sparse().to(remote(0))), std::exception);
    EXPECT_SAYS(thrown_by<Unsupported>([&] { static_cast<void>(torch::empty({3}, torch::TensorOptions(remote(0)).pinned_memory(true))); }), "pinned");
  });
}

}  // namespace
}  // namespace unisono::remote_testing
