// Sums sparse tensors: the values and indices of all ranks are gathered and added up on every rank. The calls are waited for one after the other.

#include <ATen/ATen.h>
#include <fmt/format.h>

#include "torch/python/errors.h"
#include "torch/python/process_group.h"
#include "unisono/error.h"

namespace unisono::libtorch {

at::Tensor ProcessGroupUnisono::reduce_sparse(const at::Tensor& tensor, std::chrono::milliseconds timeout) {
  const at::Tensor own = tensor.detach().coalesce();
  c10d::AllgatherOptions same_timeout;
  same_timeout.timeout = timeout;
  const auto gather = [&](const at::Tensor& part, const Tensors& into) {
    Lists outputs{into};
    Tensors inputs{part};
    if (const auto work = allgather(outputs, inputs, same_timeout)) work->wait();
  };

  // The header holds the sparse and dense dimensions, the shape, and the number of values.
  std::vector<std::int64_t> header{own.sparse_dim(), own.dense_dim()};
  header.insert(header.end(), own.sizes().begin(), own.sizes().end());
  header.push_back(own._nnz());
  at::Tensor all = at::empty({getSize(), static_cast<std::int64_t>(header.size())}, at::kLong);
  at::Tensor mine = at::tensor(header);
  if (const auto work = _allgather_base(all, mine, same_timeout)) work->wait();
  Tensors values, indices;
  for (std::int64_t rank = 0; rank < getSize(); ++rank) {
    if (!all[rank].slice(0, 0, -1).equal(mine.slice(0, 0, -1))) {
      throw Mismatch(fmt::format("rank {} gives a sparse tensor of another shape than rank {}", rank, getRank()), {.operation = "all_reduce"});
    }
    const auto nnz = all[rank][-1].item<std::int64_t>();
    std::vector<std::int64_t> shape = own.values().sizes().vec();
    shape[0] = nnz;
    values.push_back(at::empty(shape, own.values().options()));
    indices.push_back(at::empty({own.sparse_dim(), nnz}, own.indices().options()));
  }
  gather(own.values(), values);
  gather(own.indices(), indices);
  return at::sparse_coo_tensor(at::cat(indices, 1), at::cat(values, 0), own.sizes(), own.options()).coalesce();
}

ProcessGroupUnisono::WorkPtr ProcessGroupUnisono::allreduce_sparse(Tensors& tensors, const c10d::AllreduceOptions& options) {
  return with_torch_errors([&]() -> WorkPtr {
    const at::Tensor& tensor = single("all_reduce", tensors);
    if (!tensor.is_sparse()) refuse("all_reduce", "unsupported layout");
    if (options.reduceOp.op_ != c10d::ReduceOp::SUM) refuse("all_reduce", "unsupported reduction operation: sparse tensors can be summed only");
    auto work = c10::make_intrusive<WorkUnisono>(WorkUnisono::About{.rank = getRank(),
                                                                    .type = c10d::OpType::_ALLREDUCE_SPARSE,
                                                                    .title = title("sparse_all_reduce"),
                                                                    .inputs = tensors,
                                                                    .outputs = {tensors},
                                                                    .sequence = ++sequence_});
    const at::Tensor sum = reduce_sparse(tensor, options.timeout);
    const at::NoGradGuard no_grad;
    tensors.front().copy_(sum);
    work->follow({});
    return work;
  });
}

}  // namespace unisono::libtorch
