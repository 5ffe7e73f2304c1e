#include "unisono/c/collectives.h"

#include "c/collective.h"

using unisono::Operation;
using unisono::c::run;
using unisono::c::start;

unisono_status unisono_barrier(unisono_group* group, const unisono_call_options* options) {
  return run({.operation = Operation::barrier, .group = group, .options = options});
}
unisono_status unisono_barrier_async(unisono_group* group, const unisono_call_options* options, unisono_work** work) {
  return start({.operation = Operation::barrier, .group = group, .options = options}, work);
}
unisono_status unisono_all_reduce(void* data, size_t count, unisono_dtype dtype, unisono_reduce_op op, unisono_group* group,
                                  const unisono_call_options* options) {
  return run(
      {.operation = Operation::all_reduce, .in = data, .out = data, .count = count, .dtype = dtype, .op = op, .group = group, .options = options});
}
unisono_status unisono_all_reduce_async(void* data, size_t count, unisono_dtype dtype, unisono_reduce_op op, unisono_group* group,
                                        const unisono_call_options* options, unisono_work** work) {
  return start(
      {.operation = Operation::all_reduce, .in = data, .out = data, .count = count, .dtype = dtype, .op = op, .group = group, .options = options},
      work);
}
unisono_status unisono_all_reduce_into(const void* in, void* out, size_t count, unisono_dtype dtype, unisono_reduce_op op, unisono_group* group,
                                       const unisono_call_options* options) {
  return run(
      {.operation = Operation::all_reduce, .in = in, .out = out, .count = count, .dtype = dtype, .op = op, .group = group, .options = options});
}
unisono_status unisono_all_reduce_into_async(const void* in, void* out, size_t count, unisono_dtype dtype, unisono_reduce_op op, unisono_group* group,
                                             const unisono_call_options* options, unisono_work** work) {
  return start(
      {.operation = Operation::all_reduce, .in = in, .out = out, .count = count, .dtype = dtype, .op = op, .group = group, .options = options}, work);
}
unisono_status unisono_reduce(void* data, size_t count, unisono_dtype dtype, unisono_reduce_op op, int32_t dst, unisono_group* group,
                              const unisono_call_options* options) {
  return run({.operation = Operation::reduce,
              .in = data,
              .out = data,
              .count = count,
              .dtype = dtype,
              .op = op,
              .root = dst,
              .group = group,
              .options = options});
}
unisono_status unisono_reduce_async(void* data, size_t count, unisono_dtype dtype, unisono_reduce_op op, int32_t dst, unisono_group* group,
                                    const unisono_call_options* options, unisono_work** work) {
  return start({.operation = Operation::reduce,
                .in = data,
                .out = data,
                .count = count,
                .dtype = dtype,
                .op = op,
                .root = dst,
                .group = group,
                .options = options},
               work);
}
unisono_status unisono_broadcast(void* data, size_t count, unisono_dtype dtype, int32_t src, unisono_group* group,
                                 const unisono_call_options* options) {
  return run(
      {.operation = Operation::broadcast, .in = data, .out = data, .count = count, .dtype = dtype, .root = src, .group = group, .options = options});
}
unisono_status unisono_broadcast_async(void* data, size_t count, unisono_dtype dtype, int32_t src, unisono_group* group,
                                       const unisono_call_options* options, unisono_work** work) {
  return start(
      {.operation = Operation::broadcast, .in = data, .out = data, .count = count, .dtype = dtype, .root = src, .group = group, .options = options},
      work);
}
unisono_status unisono_all_gather(const void* in, void* out, size_t count, unisono_dtype dtype, unisono_group* group,
                                  const unisono_call_options* options) {
  return run({.operation = Operation::all_gather, .in = in, .out = out, .count = count, .dtype = dtype, .group = group, .options = options});
}
unisono_status unisono_all_gather_async(const void* in, void* out, size_t count, unisono_dtype dtype, unisono_group* group,
                                        const unisono_call_options* options, unisono_work** work) {
  return start({.operation = Operation::all_gather, .in = in, .out = out, .count = count, .dtype = dtype, .group = group, .options = options}, work);
}
unisono_status unisono_gather(const void* in, void* out, size_t count, unisono_dtype dtype, int32_t dst, unisono_group* group,
                              const unisono_call_options* options) {
  return run({.operation = Operation::gather, .in = in, .out = out, .count = count, .dtype = dtype, .root = dst, .group = group, .options = options});
}
unisono_status unisono_gather_async(const void* in, void* out, size_t count, unisono_dtype dtype, int32_t dst, unisono_group* group,
                                    const unisono_call_options* options, unisono_work** work) {
  return start(
      {.operation = Operation::gather, .in = in, .out = out, .count = count, .dtype = dtype, .root = dst, .group = group, .options = options}, work);
}
unisono_status unisono_scatter(const void* in, void* out, size_t count, unisono_dtype dtype, int32_t src, unisono_group* group,
                               const unisono_call_options* options) {
  return run(
      {.operation = Operation::scatter, .in = in, .out = out, .count = count, .dtype = dtype, .root = src, .group = group, .options = options});
}
unisono_status unisono_scatter_async(const void* in, void* out, size_t count, unisono_dtype dtype, int32_t src, unisono_group* group,
                                     const unisono_call_options* options, unisono_work** work) {
  return start(
      {.operation = Operation::scatter, .in = in, .out = out, .count = count, .dtype = dtype, .root = src, .group = group, .options = options}, work);
}
unisono_status unisono_reduce_scatter(const void* in, void* out, size_t count, unisono_dtype dtype, unisono_reduce_op op, unisono_group* group,
                                      const unisono_call_options* options) {
  return run(
      {.operation = Operation::reduce_scatter, .in = in, .out = out, .count = count, .dtype = dtype, .op = op, .group = group, .options = options});
}
unisono_status unisono_reduce_scatter_async(const void* in, void* out, size_t count, unisono_dtype dtype, unisono_reduce_op op, unisono_group* group,
                                            const unisono_call_options* options, unisono_work** work) {
  return start(
      {.operation = Operation::reduce_scatter, .in = in, .out = out, .count = count, .dtype = dtype, .op = op, .group = group, .options = options},
      work);
}
unisono_status unisono_all_to_all(const void* in, void* out, size_t count, unisono_dtype dtype, unisono_group* group,
                                  const unisono_call_options* options) {
  return run({.operation = Operation::all_to_all, .in = in, .out = out, .count = count, .dtype = dtype, .group = group, .options = options});
}
unisono_status unisono_all_to_all_async(const void* in, void* out, size_t count, unisono_dtype dtype, unisono_group* group,
                                        const unisono_call_options* options, unisono_work** work) {
  return start({.operation = Operation::all_to_all, .in = in, .out = out, .count = count, .dtype = dtype, .group = group, .options = options}, work);
}
unisono_status unisono_scan(void* data, size_t count, unisono_dtype dtype, unisono_reduce_op op, unisono_group* group,
                            const unisono_call_options* options) {
  return run({.operation = Operation::scan, .in = data, .out = data, .count = count, .dtype = dtype, .op = op, .group = group, .options = options});
}
unisono_status unisono_scan_async(void* data, size_t count, unisono_dtype dtype, unisono_reduce_op op, unisono_group* group,
                                  const unisono_call_options* options, unisono_work** work) {
  return start({.operation = Operation::scan, .in = data, .out = data, .count = count, .dtype = dtype, .op = op, .group = group, .options = options},
               work);
}
unisono_status unisono_exscan(void* data, size_t count, unisono_dtype dtype, unisono_reduce_op op, unisono_group* group,
                              const unisono_call_options* options) {
  return run({.operation = Operation::exscan, .in = data, .out = data, .count = count, .dtype = dtype, .op = op, .group = group, .options = options});
}
unisono_status unisono_exscan_async(void* data, size_t count, unisono_dtype dtype, unisono_reduce_op op, unisono_group* group,
                                    const unisono_call_options* options, unisono_work** work) {
  return start(
      {.operation = Operation::exscan, .in = data, .out = data, .count = count, .dtype = dtype, .op = op, .group = group, .options = options}, work);
}
