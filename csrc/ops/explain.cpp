// The op gpureduce::explain: what a call of another op would do on a card, without doing it.
#include <string>
#include <string_view>
#include <type_traits>

#include "core/plan.h"
#include "ops/backends.h"
#include "ops/kernel.h"
#include "reductions/kernel_traits.h"

namespace gpureduce {
namespace {

constexpr const char* kName = "gpureduce::explain(): ";
constexpr int kRowsLoadBytes = 16;

// The members of a JSON object, in the order they are added. Texts are the library's own and need no escapes.
class JsonObject {
 public:
  JsonObject& add(const char* key, std::string_view text) { return add_raw(key, '"' + std::string(text) + '"'); }
  JsonObject& add(const char* key, const char* text) { return add(key, std::string_view(text)); }
  JsonObject& add(const char* key, const JsonObject& object) { return add_raw(key, object.text()); }
  JsonObject& add(const char* key, const AxisList& axes) {
    std::string list;
    for (int i = 0; i < axes.count; i++) {
      list += c10::str(i == 0 ? "" : ", ", "[", axes[i].size, ", ", axes[i].stride, "]");
    }
    return add_raw(key, "[" + list + "]");
  }
  template <class Integer>
    requires std::is_integral_v<Integer>
  JsonObject& add(const char* key, Integer value) {
    if constexpr (std::is_same_v<Integer, bool>) return add_raw(key, value ? "true" : "false");
    return add_raw(key, std::to_string(value));
  }
  std::string text() const { return "{" + members_ + "}"; }

 private:
  JsonObject& add_raw(const char* key, const std::string& value) {
    members_ += c10::str(members_.empty() ? "" : ", ", '"', key, "\": ", value);
    return *this;
  }
  std::string members_;
};

const char* name_of(Family family) {
  switch (family) {
    case Family::kNothing:
      return "nothing";
    case Family::kTinyRows:
      return "tiny_rows";
    case Family::kShortRows:
      return "short_rows";
    case Family::kStagedRows:
      return "staged_rows";
    case Family::kRowsWarp:
      return "rows_warp";
    case Family::kRowsLeaf:
      return "rows_leaf";
    case Family::kRowsBlock:
      return "rows_block";
    case Family::kSegments:
      return "segments";
    case Family::kThin:
      return "thin";
    case Family::kColumns:
      return "columns";
    case Family::kTiles:
      break;
  }
  return "tiles";
}

// Of the shapes that docs/order.md gives a reduction.
const char* order_name(const Problem& problem, const KernelTraits& traits, const Order& order) {
  if (!traits.ordered) return "any";
  if (order.num_leaves > 1) return "leaves";
  return problem.length <= order.lanes ? "tree" : "lanes";
}

// Why the planner took this family, in one sentence.
const char* reason_for(const Problem& problem, const Plan& plan, const KernelTraits& traits) {
  if (problem.length == 0 && problem.num_outputs > 0) {
    return "There is no element to read, so that the results are only filled.";
  }
  switch (plan.family) {
    case Family::kNothing:
      return "The result has no element, so nothing is launched.";
    case Family::kTinyRows:
      return "Reductions of a few neighbours lie side by side, several to a vector, so a thread takes whole "
             "vectors and shares nothing.";
    case Family::kShortRows:
      return "The elements of a reduction are neighbours in memory, whole vectors of them and few, so that a warp "
             "copies many reductions to shared memory, and a thread or a few take each from there.";
    case Family::kStagedRows:
      return "Short reductions lie side by side at any alignment, so a warp copies many of them to shared memory as "
             "they lie, and a thread or a few take each from there.";
    case Family::kRowsWarp:
      return "The elements of a reduction are neighbours in memory, and so few that a part of a warp holds all lanes.";
    case Family::kRowsLeaf:
      return "The elements of a reduction are neighbours in memory and fill one leaf, which a block takes, and as many "
             "blocks as fit share a multiprocessor.";
    case Family::kRowsBlock:
      if (plan.cluster > 0) {
        return "The elements of a reduction are neighbours in memory; its few leaves go to the blocks of a cluster, "
               "which meet in shared memory.";
      }
      if (plan.shares_outputs()) {
        return "The elements of a reduction are neighbours in memory, and the reductions so few that the leaves of "
               "each go to several blocks; the last one, told by a ticket, folds what they leave.";
      }
      return "The elements of a reduction are neighbours in memory; a block takes all leaves of one, one leaf at a "
             "time.";
    case Family::kSegments:
      return "The elements of a reduction lie in memory as a chain of segments, which are read as if they lay side by "
             "side.";
    case Family::kThin:
      return "Each result has few elements and neighbouring results lie side by side, so a thread takes whole results "
             "and shares nothing.";
    case Family::kColumns:
      if (plan.rows_of_unit > 1) {
        return "Results lie side by side, too few for whole vectors, so that several positions are read as one row.";
      }
      return "The elements of a reduction are apart and neighbouring results lie side by side, so a thread loads a "
             "vector of results.";
    case Family::kTiles:
      break;
  }
  if (!traits.reads_rows) return "Each element is converted as it is read, which one kernel does for every layout.";
  return "The elements of a reduction are apart and no vector of results can be loaded at once, so a thread loads "
         "single elements.";
}

// What has to be read: elements that share a place are read once.
int64_t bytes_to_read(const Problem& problem) {
  int64_t elements = 1;
  for (const AxisList* list : {&problem.kept, &problem.reduced}) {
    for (int i = 0; i < list->count; i++) {
      if (list->axes[i].stride != 0) elements *= list->axes[i].size;
    }
  }
  return std::min(elements, span_elements(problem)) * problem.element_bytes;
}

// An address with the alignment of the first element; of a tensor that is not on a card, what a copy of its storage
// there would give.
uint64_t address_of(const at::Tensor& self) {
  if (self.is_cuda()) return reinterpret_cast<uint64_t>(self.const_data_ptr());
  return static_cast<uint64_t>(self.storage_offset() * self.element_size());
}

// What the kernel walks may be more, or less, than the order that it stands for: rows that are joined count as one, and
// where the order does not bind a kernel chooses its own.
JsonObject describe(const Plan& plan, const Order& order) {
  return JsonObject()
      .add("num_items", plan.num_items)
      .add("num_blocks", plan.num_blocks)
      .add("threads", plan.threads)
      .add("shared_bytes", plan.shared_bytes)
      .add("order_lanes", order.lanes)
      .add("leaf_elements", order.leaf_elements)
      .add("num_leaves", order.num_leaves)
      .add("walked_lanes", plan.order.lanes)
      .add("walked_leaf_elements", plan.order.leaf_elements)
      .add("walked_leaves", plan.order.num_leaves)
      .add("splits", plan.splits)
      .add("leaves_per_split", plan.leaves_per_split)
      .add("lane_splits", plan.lane_splits)
      .add("cluster", plan.cluster)
      .add("num_counters", plan.num_counters)
      .add("partial_bytes", plan.partial_bytes)
      .add("threads_per_row", plan.threads_per_row)
      .add("row_stride", plan.row_stride)
      .add("vectors_per_thread", plan.vectors_per_thread)
      .add("rows_per_tile", plan.rows_per_tile)
      .add("segment_elements", plan.segment_elements)
      .add("one_wave", plan.one_wave)
      .add("ahead_blocks", plan.ahead_blocks)
      .add("aligned", plan.aligned)
      .add("rounds_at_once", plan.rounds_at_once)
      .add("vector", plan.vector)
      .add("units", plan.units)
      .add("lanes", plan.lanes)
      .add("lanes_first", plan.lanes_first)
      .add("lanes_per_thread", plan.lanes_per_thread)
      .add("rows_of_unit", plan.rows_of_unit)
      .add("one_at_a_time", plan.one_at_a_time)
      .add("tile_outputs", plan.tile_outputs)
      .add("num_tiles", plan.num_tiles)
      .add("nine_warps", plan.nine_warps)
      .add("fold_groups", plan.fold_groups);
}

// The backend that describes what the others do, so that a call means here what it means there.
struct ExplainBackend {
  static constexpr bool kSymbolic = false;
  static thread_local DeviceLimits limits;
  static thread_local std::string description;

  template <class Op>
  static Tensors<Op> run(const at::Tensor& self, const Request& request, DType dtype) {
    const Problem problem = problem_of<Op>(self, request, dtype);
    const KernelChoice choice = choose_kernel<Op>(dtype, request);
    KernelTraits traits;
    dispatch_group<Op>(choice.group, [&]<DTypeGroup Group>() {
      traits = kernel_traits<Op::template Reduction, Group>(Group == DTypeGroup::Converted ? choice.through : dtype);
    });
    const Plan plan = make_plan(problem, traits, limits, address_of(self));
    const Order order = make_order(problem.length, problem.element_bytes, traits.wide_lane);
    const bool by_outputs =
        plan.family == Family::kThin || plan.family == Family::kColumns || plan.family == Family::kTiles;
    description = JsonObject()
                      .add("family", name_of(plan.family))
                      .add("reason", reason_for(problem, plan, traits))
                      .add("supported", plan.supported)
                      .add("order", order_name(problem, traits, order))
                      .add("num_outputs", problem.num_outputs)
                      .add("length", problem.length)
                      .add("kept", problem.kept)
                      .add("reduced", problem.reduced)
                      .add("load_bytes", by_outputs ? plan.vector * problem.element_bytes : kRowsLoadBytes)
                      .add("bytes_read", bytes_to_read(problem))
                      .add("plan", describe(plan, order))
                      .text();
    return {};
  }
};
thread_local DeviceLimits ExplainBackend::limits;
thread_local std::string ExplainBackend::description;

// The call of an op without arguments of its own; a norm is that of order 2.
template <class Op>
void call_op(const at::Tensor& self, at::OptionalIntArrayRef dim, std::optional<c10::ScalarType> dtype) {
  using K = Kernel<ExplainBackend, Op>;
  constexpr Signature signature = Op::kSignature;
  constexpr bool takes_dtype = signature == Signature::kDimsDtype || signature == Signature::kMean ||
                               signature == Signature::kNanMean || signature == Signature::kNorm;
  TORCH_CHECK_VALUE(takes_dtype || !dtype.has_value(), kName, "dtype: ", Op::kName, "() has no dtype=, got ", *dtype);
  const auto one_dim = [&]() -> std::optional<int64_t> {
    if (!dim.has_value() || dim->empty()) return std::nullopt;
    TORCH_CHECK(dim->size() == 1, kName, "dim: ", Op::kName, "() takes one dim, got ", *dim);
    return dim->front();
  };
  if constexpr (signature == Signature::kDims) {
    K::dims(self, dim, false);
  } else if constexpr (signature == Signature::kTruth) {
    K::truth(self, dim, false);
  } else if constexpr (signature == Signature::kCount) {
    K::count(self, dim);
  } else if constexpr (signature == Signature::kIndex) {
    K::index(self, one_dim(), false);
  } else if constexpr (signature == Signature::kWhole) {
    TORCH_CHECK_VALUE(!one_dim().has_value(), kName, "dim: ", Op::kName, "() takes none, ", Op::kName, ".dim() does");
    K::whole(self);
  } else if constexpr (signature == Signature::kAlongDim) {
    TORCH_CHECK_VALUE(one_dim().has_value(), kName, "dim: ", Op::kName, "() needs one");
    K::along_dim(self, *one_dim(), false);
  } else if constexpr (signature == Signature::kNorm) {
    K::norm(self, 2, dim, false, dtype);
  } else if constexpr (signature == Signature::kVar) {
    K::var(self, dim, std::nullopt, false);
  } else if constexpr (signature == Signature::kLogSumExp) {
    K::logsumexp(self, dim, false);
  } else if constexpr (signature == Signature::kStats) {
    K::stats(self, dim, false);
  } else {
    K::dims_dtype(self, dim, false, dtype);
  }
}

std::string explain(const at::Tensor& self, c10::string_view op, at::OptionalIntArrayRef dim,
                    std::optional<c10::ScalarType> dtype, int64_t num_sms, int64_t compute_major,
                    int64_t max_shared_bytes, int64_t max_blocks) {
  TORCH_CHECK_NOT_IMPLEMENTED(self.layout() == at::kStrided && !self.is_nested(), kName,
                              "self: expected a dense strided tensor, got layout ", self.layout());
  TORCH_CHECK_VALUE(num_sms > 0 && max_blocks > 0, kName, "expected a card of at least one multiprocessor and block");
  ExplainBackend::limits =
      make_device_limits(static_cast<int>(num_sms), static_cast<int>(compute_major), max_shared_bytes);
  ExplainBackend::limits.max_blocks = max_blocks;
  std::string known;
  bool found = false;
  const auto try_op = [&]<class Op>() {
    known += std::string(known.empty() ? "" : ", ") + Op::kName;
    if (op != Op::kName) return;
    found = true;
    call_op<Op>(self, dim, dtype);
  };
  [&]<class... Ops>(std::tuple<Ops...>*) { (try_op.template operator()<Ops>(), ...); }(static_cast<Registry*>(nullptr));
  TORCH_CHECK_VALUE(found, kName, "op: expected one of ", known, ", got ", op);
  return ExplainBackend::description;
}

}  // namespace

void define_explain(torch::Library& library) {
  // Every backend, since nothing is read: not the tensor's data, and no device but the one that the numbers describe.
  library.def(
      "explain(Tensor self, str op, int[1]? dim=None, *, ScalarType? dtype=None, int num_sms, int compute_major, "
      "int max_shared_bytes, int max_blocks=2147483647) -> str",
      torch::dispatch(c10::DispatchKey::CompositeExplicitAutograd, TORCH_FN(explain)), {at::Tag::pt2_compliant_tag});
}

}  // namespace gpureduce
