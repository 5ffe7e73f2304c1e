#pragma once

namespace declarations {

/// The version of the header that the compiler compared with ours; 0: it was not found.
int nccl_compared();
int cuda_compared();

}  // namespace declarations
