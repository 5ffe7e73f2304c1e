#include "unisono/c/blocks.h"

#include "c/collective.h"

using unisono::Operation;
using unisono::c::run;
using unisono::c::start;

unisono_status unisono_all_gather_v(const void* in, void* out, const size_t* counts, unisono_dtype dtype, unisono_group* group,
                                    const unisono_call_options* options) {
  return run({.operation = Operation::all_gather_v, .in = in, .out = out, .dtype = dtype, .counts = counts, .group = group, .options = options});
}
unisono_status unisono_all_gather_v_async(const void* in, void* out, const size_t* counts, unisono_dtype dtype, unisono_group* group,
                                          const unisono_call_options* options, unisono_work** work) {
  return start({.operation = Operation::all_gather_v, .in = in, .out = out, .dtype = dtype, .counts = counts, .group = group, .options = options},
               work);
}
unisono_status unisono_gather_v(const void* in, void* out, const size_t* counts, unisono_dtype dtype, int32_t dst, unisono_group* group,
                                const unisono_call_options* options) {
  return run(
      {.operation = Operation::gather_v, .in = in, .out = out, .dtype = dtype, .root = dst, .counts = counts, .group = group, .options = options});
}
unisono_status unisono_gather_v_async(const void* in, void* out, const size_t* counts, unisono_dtype dtype, int32_t dst, unisono_group* group,
                                      const unisono_call_options* options, unisono_work** work) {
  return start(
      {.operation = Operation::gather_v, .in = in, .out = out, .dtype = dtype, .root = dst, .counts = counts, .group = group, .options = options},
      work);
}
unisono_status unisono_scatter_v(const void* in, void* out, const size_t* counts, unisono_dtype dtype, int32_t src, unisono_group* group,
                                 const unisono_call_options* options) {
  return run(
      {.operation = Operation::scatter_v, .in = in, .out = out, .dtype = dtype, .root = src, .counts = counts, .group = group, .options = options});
}
unisono_status unisono_scatter_v_async(const void* in, void* out, const size_t* counts, unisono_dtype dtype, int32_t src, unisono_group* group,
                                       const unisono_call_options* options, unisono_work** work) {
  return start(
      {.operation = Operation::scatter_v, .in = in, .out = out, .dtype = dtype, .root = src, .counts = counts, .group = group, .options = options},
      work);
}
unisono_status unisono_reduce_scatter_v(const void* in, void* out, const size_t* counts, unisono_dtype dtype, unisono_reduce_op op,
                                        unisono_group* group, const unisono_call_options* options) {
  return run({.operation = Operation::reduce_scatter_v,
              .in = in,
              .out = out,
              .dtype = dtype,
              .op = op,
              .counts = counts,
              .group = group,
              .options = options});
}
unisono_status unisono_reduce_scatter_v_async(const void* in, void* out, const size_t* counts, unisono_dtype dtype, unisono_reduce_op op,
                                              unisono_group* group, const unisono_call_options* options, unisono_work** work) {
  return start({.operation = Operation::reduce_scatter_v,
                .in = in,
                .out = out,
                .dtype = dtype,
                .op = op,
                .counts = counts,
                .group = group,
                .options = options},
               work);
}
unisono_status unisono_all_to_all_v(const void* in, const size_t* send_counts, void* out, const size_t* recv_counts, unisono_dtype dtype,
                                    unisono_group* group, const unisono_call_options* options) {
  return run({.operation = Operation::all_to_all_v,
              .in = in,
              .out = out,
              .dtype = dtype,
              .counts = send_counts,
              .recv_counts = recv_counts,
              .group = group,
              .options = options});
}
unisono_status unisono_all_to_all_v_async(const void* in, const size_t* send_counts, void* out, const size_t* recv_counts, unisono_dtype dtype,
                                          unisono_group* group, const unisono_call_options* options, unisono_work** work) {
  return start({.operation = Operation::all_to_all_v,
                .in = in,
                .out = out,
                .dtype = dtype,
                .counts = send_counts,
                .recv_counts = recv_counts,
                .group = group,
                .options = options},
               work);
}
