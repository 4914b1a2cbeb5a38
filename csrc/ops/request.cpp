#include "ops/request.h"

#include <c10/core/DefaultDtype.h>
#include <c10/util/Exception.h>

namespace gpureduce {
namespace {

// What every message starts with.
std::string at_op(const char* op) {
  return std::string("gpureduce::") + op + "(): ";
}

// Whether every number of one floating point or complex dtype is one of the other.
bool is_widening(DType from, DType to) {
  return from == to || dispatch(from, [&]<class From>() {
           return dispatch(to, [&]<class To>() {
             constexpr bool same_size_differs = is_small_float<From> && sizeof(From) == sizeof(To);
             return sizeof(From) <= sizeof(To) && !same_size_differs;
           });
         });
}

}  // namespace

std::optional<DType> to_dtype(c10::ScalarType type) {
  switch (type) {
    case c10::ScalarType::Half:
      return DType::kFloat16;
    case c10::ScalarType::BFloat16:
      return DType::kBFloat16;
    case c10::ScalarType::Float:
      return DType::kFloat32;
    case c10::ScalarType::Double:
      return DType::kFloat64;
    case c10::ScalarType::Float8_e4m3fn:
      return DType::kFloat8E4M3;
    case c10::ScalarType::Float8_e5m2:
      return DType::kFloat8E5M2;
    case c10::ScalarType::Char:
      return DType::kInt8;
    case c10::ScalarType::Short:
      return DType::kInt16;
    case c10::ScalarType::Int:
      return DType::kInt32;
    case c10::ScalarType::Long:
      return DType::kInt64;
    case c10::ScalarType::Byte:
      return DType::kUInt8;
    case c10::ScalarType::UInt16:
      return DType::kUInt16;
    case c10::ScalarType::UInt32:
      return DType::kUInt32;
    case c10::ScalarType::UInt64:
      return DType::kUInt64;
    case c10::ScalarType::Bool:
      return DType::kBool;
    case c10::ScalarType::ComplexFloat:
      return DType::kComplex64;
    case c10::ScalarType::ComplexDouble:
      return DType::kComplex128;
    default:
      return std::nullopt;
  }
}

DimSet resolve_dims(const char* op, at::OptionalIntArrayRef dims, int64_t num_dims) {
  TORCH_CHECK(num_dims <= kMaxDims, at_op(op), "self: expected a tensor of at most ", kMaxDims, " dims, got ",
              num_dims);
  if (!dims.has_value() || dims->empty()) return DimSet().set();
  const int64_t range = std::max<int64_t>(num_dims, 1);  // a 0-d tensor takes dim 0 and -1
  DimSet reduced;
  for (const int64_t dim : *dims) {
    TORCH_CHECK_INDEX(-range <= dim && dim < range, at_op(op), "dim: expected a value in the range [", -range, ", ",
                      range - 1, "] for a tensor of ", num_dims, " dims, got ", dim, " (Dimension out of range)");
    const int64_t wrapped = dim < 0 ? dim + range : dim;
    TORCH_CHECK(!reduced[wrapped], at_op(op), "dim: expected each dim once, got dim ", wrapped, " more than once in ",
                *dims);
    reduced.set(wrapped);
  }
  return reduced;
}

DType require_dtype(const char* op, const at::Tensor& self, DTypeKinds kinds) {
  const auto dtype = to_dtype(self.scalar_type());
  TORCH_CHECK_NOT_IMPLEMENTED(dtype.has_value(), at_op(op),
                              "self: expected a floating point, integer, bool or complex "
                              "dtype that the library knows, got ",
                              self.scalar_type());
  TORCH_CHECK_NOT_IMPLEMENTED(kinds != DTypeKinds::kReal || !is_complex_dtype(*dtype), at_op(op),
                              "self: expected a real dtype, got ", self.scalar_type());
  TORCH_CHECK_NOT_IMPLEMENTED(kinds != DTypeKinds::kFloats || is_float_dtype(*dtype), at_op(op),
                              "self: expected a real floating point dtype, got ", self.scalar_type());
  return *dtype;
}

c10::ScalarType resolve_dtype(const char* op, c10::ScalarType self, std::optional<c10::ScalarType> dtype,
                              DTypeRule rule) {
  const bool integral = c10::isIntegralType(self, /*includeBool=*/true);
  if (rule == DTypeRule::kInexact || rule == DTypeRule::kNorm) {
    TORCH_CHECK(!integral, at_op(op), "self: expected a floating point or complex dtype, got ", self);
  }
  const c10::ScalarType result = dtype.value_or(!integral                       ? self
                                                : rule == DTypeRule::kSum       ? c10::ScalarType::Long
                                                : rule == DTypeRule::kLogSumExp ? c10::get_default_dtype_as_scalartype()
                                                                                : self);
  const auto known = to_dtype(result);
  TORCH_CHECK_NOT_IMPLEMENTED(known.has_value(), at_op(op),
                              "dtype: expected a floating point, integer, bool or complex dtype that the "
                              "library knows, got ",
                              result);
  if (rule != DTypeRule::kSum && is_integral_dtype(*known)) {
    TORCH_CHECK(dtype.has_value(), at_op(op),
                "self: expected a floating point or complex dtype, or dtype= to compute "
                "the mean in, got ",
                self, " and no dtype");
    TORCH_CHECK(false, at_op(op), "dtype: expected a floating point or complex dtype, got ", result);
  }
  if (rule == DTypeRule::kNorm) {
    TORCH_CHECK(c10::isComplexType(self) == c10::isComplexType(result), at_op(op), "dtype: expected a ",
                c10::isComplexType(self) ? "complex" : "real", " dtype for an input of ", self, ", got ", result);
    TORCH_CHECK(is_widening(*to_dtype(self), *known), at_op(op), "dtype: expected a dtype that holds every ", self,
                ", got ", result);
  } else if (c10::isComplexType(self) && !c10::isComplexType(result) && result != c10::ScalarType::Bool) {
    TORCH_WARN_ONCE(at_op(op), "dtype: converting complex values to ", result, " discards the imaginary part");
  }
  return result;
}

double resolve_order(const char* op, const c10::Scalar& order) {
  TORCH_CHECK(!order.isComplex(), at_op(op), "ord: expected a real number, got a complex one");
  return order.toDouble();
}

double resolve_correction(const char* op, const std::optional<c10::Scalar>& correction) {
  if (!correction.has_value()) return 1;
  TORCH_CHECK(!correction->isComplex(), at_op(op), "correction: expected a real number, got a complex one");
  return correction->toDouble();
}

void require_elements(const Request& request, c10::SymIntArrayRef sizes, bool dim_given, EmptyRule rule) {
  for (size_t d = 0; d < sizes.size(); d++) {
    if (!request.reduced[d] || TORCH_GUARD_OR_TRUE(sizes[d].sym_ne(0))) continue;
    const std::string message =
        dim_given ? c10::str(at_op(request.op), "dim: expected dim ", d,
                             " to have at least one element to reduce, got shape ", sizes)
                  : c10::str(at_op(request.op), "self: expected at least one element where no dim is given, got shape ",
                             sizes);
    const bool is_index_error = rule == EmptyRule::kIndex || (rule == EmptyRule::kValue && dim_given);
    TORCH_CHECK_INDEX(!is_index_error, message);
    TORCH_CHECK(false, message);
  }
}

}  // namespace gpureduce
