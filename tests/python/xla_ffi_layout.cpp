// The structures of python/src/xla_ffi.h are those of the jaxlib that is installed: this need only compile.

#include "xla_ffi.h"

#include <xla/ffi/api/c_api.h>

namespace {

namespace ours = unisono::python::xla;

#define SAME(type, field, theirs, their_field) \
  static_assert(offsetof(ours::type, field) == offsetof(theirs, their_field) && sizeof(ours::type::field) == sizeof(theirs::their_field))
// NOLINTBEGIN(bugprone-sizeof-expression): the sizes of members that are pointers are meant
#define EQUAL(name, theirs) static_assert(static_cast<int>(ours::name) == static_cast<int>(theirs))

static_assert(XLA_FFI_API_MAJOR == 0, "this version of the interface is another one");

SAME(Extension, type, XLA_FFI_Extension_Base, type);
SAME(Extension, next, XLA_FFI_Extension_Base, next);
static_assert(ours::metadata_extension == XLA_FFI_Extension_Metadata);
SAME(Version, major, XLA_FFI_Api_Version, major_version);
SAME(Version, minor, XLA_FFI_Api_Version, minor_version);
static_assert(sizeof(ours::Version) == sizeof(XLA_FFI_Api_Version));
SAME(Metadata, version, XLA_FFI_Metadata, api_version);
SAME(Metadata, traits, XLA_FFI_Metadata, traits);
SAME(MetadataExtension, metadata, XLA_FFI_Metadata_Extension, metadata);
SAME(ErrorArguments, message, XLA_FFI_Error_Create_Args, message);
SAME(ErrorArguments, code, XLA_FFI_Error_Create_Args, errc);
static_assert(sizeof(ours::ErrorArguments) == sizeof(XLA_FFI_Error_Create_Args));
SAME(Api, version, XLA_FFI_Api, api_version);
SAME(Api, create_error, XLA_FFI_Api, XLA_FFI_Error_Create);

SAME(Buffer, dtype, XLA_FFI_Buffer, dtype);
SAME(Buffer, data, XLA_FFI_Buffer, data);
SAME(Buffer, rank, XLA_FFI_Buffer, rank);
SAME(Buffer, dims, XLA_FFI_Buffer, dims);
SAME(Buffers, size, XLA_FFI_Args, size);
SAME(Buffers, buffers, XLA_FFI_Args, args);
SAME(Buffers, size, XLA_FFI_Rets, size);
SAME(Buffers, buffers, XLA_FFI_Rets, rets);
static_assert(sizeof(ours::Buffers) == sizeof(XLA_FFI_Args) && sizeof(ours::Buffers) == sizeof(XLA_FFI_Rets));
SAME(Text, data, XLA_FFI_ByteSpan, ptr);
SAME(Text, size, XLA_FFI_ByteSpan, len);
SAME(Scalar, dtype, XLA_FFI_Scalar, dtype);
SAME(Scalar, value, XLA_FFI_Scalar, value);
SAME(Attributes, size, XLA_FFI_Attrs, size);
SAME(Attributes, types, XLA_FFI_Attrs, types);
SAME(Attributes, names, XLA_FFI_Attrs, names);
SAME(Attributes, values, XLA_FFI_Attrs, attrs);
SAME(CallFrame, extensions, XLA_FFI_CallFrame, extension_start);
SAME(CallFrame, api, XLA_FFI_CallFrame, api);
SAME(CallFrame, stage, XLA_FFI_CallFrame, stage);
SAME(CallFrame, arguments, XLA_FFI_CallFrame, args);
SAME(CallFrame, results, XLA_FFI_CallFrame, rets);
SAME(CallFrame, attributes, XLA_FFI_CallFrame, attrs);

EQUAL(AttributeType::scalar, XLA_FFI_AttrType_SCALAR);
EQUAL(AttributeType::string, XLA_FFI_AttrType_STRING);
EQUAL(DataType::pred, XLA_FFI_DataType_PRED);
EQUAL(DataType::s8, XLA_FFI_DataType_S8);
EQUAL(DataType::s16, XLA_FFI_DataType_S16);
EQUAL(DataType::s32, XLA_FFI_DataType_S32);
EQUAL(DataType::s64, XLA_FFI_DataType_S64);
EQUAL(DataType::u8, XLA_FFI_DataType_U8);
EQUAL(DataType::u16, XLA_FFI_DataType_U16);
EQUAL(DataType::u32, XLA_FFI_DataType_U32);
EQUAL(DataType::u64, XLA_FFI_DataType_U64);
EQUAL(DataType::f16, XLA_FFI_DataType_F16);
EQUAL(DataType::bf16, XLA_FFI_DataType_BF16);
EQUAL(DataType::f32, XLA_FFI_DataType_F32);
EQUAL(DataType::f64, XLA_FFI_DataType_F64);
EQUAL(DataType::c64, XLA_FFI_DataType_C64);
EQUAL(DataType::c128, XLA_FFI_DataType_C128);
EQUAL(DataType::token, XLA_FFI_DataType_TOKEN);
EQUAL(Code::cancelled, XLA_FFI_Error_Code_CANCELLED);
EQUAL(Code::invalid_argument, XLA_FFI_Error_Code_INVALID_ARGUMENT);
EQUAL(Code::deadline_exceeded, XLA_FFI_Error_Code_DEADLINE_EXCEEDED);
EQUAL(Code::failed_precondition, XLA_FFI_Error_Code_FAILED_PRECONDITION);
EQUAL(Code::unimplemented, XLA_FFI_Error_Code_UNIMPLEMENTED);
EQUAL(Code::internal, XLA_FFI_Error_Code_INTERNAL);
EQUAL(Code::unavailable, XLA_FFI_Error_Code_UNAVAILABLE);
EQUAL(Code::data_loss, XLA_FFI_Error_Code_DATA_LOSS);

// NOLINTEND(bugprone-sizeof-expression)
}  // namespace
