#include "archived_program.hpp"

#include <ATen/ops/empty_strided.h>
#include <c10/util/Exception.h>

#include <algorithm>
#include <optional>
#include <string_view>
#include <utility>

#include "archive_file.hpp"
#include "archived_device.hpp"
#include "integer_inputs.hpp"
#include "kiln/base/error.hpp"
#include "kiln/export/archive.hpp"
#include "sample_inputs.hpp"
#include "serialized_arguments.hpp"
#include "serialized_graph.hpp"
#include "serialized_reals.hpp"
#include "serialized_symbols.hpp"
#include "serialized_tensors.hpp"

namespace kiln::exporter {
namespace {

constexpr std::string_view kModels = "models/";
constexpr std::string_view kJson = ".json";
// An input or output that only keeps calls with effects in order.
constexpr std::string_view kToken = "token";

std::string only_model_of(const ArchiveFile& archive) {
  const std::string file = archive.path().string();
  if (archive.has("serialized_exported_program.json")) {
    throw Error(ErrorCode::kIncompatible,
                file + " has the layout of PyTorch before 2.8: load and save it with a newer one");
  }
  if (!archive.has("archive_format") || archive.text("archive_format") != "pt2") {
    throw Error(ErrorCode::kCorrupt,
                file + " is a zip archive, but not one written by torch.export.save");
  }
  std::vector<std::string> models;
  bool is_compiled = false;
  for (const std::string& record : archive.records()) {
    if (record.starts_with(kModels) && record.ends_with(kJson)) {
      models.push_back(
          record.substr(kModels.size(), record.size() - kModels.size() - kJson.size()));
    }
    is_compiled |= record.starts_with("data/aotinductor/");
  }
  if (models.empty()) {
    throw Error(ErrorCode::kInvalidArgument,
                file + (is_compiled ? " holds a compiled model, no exported program"
                                    : " holds no program"));
  }
  if (models.size() > 1) {
    throw Error(ErrorCode::kUnsupported,
                file + " holds " + std::to_string(models.size()) + " programs, not one");
  }
  return models.front();
}

void check_version(const Json& model, const std::filesystem::path& path) {
  const int major = model.at("schema_version").at("major").get<int>();
  if (major != kSchemaMajor) {
    throw Error(ErrorCode::kIncompatible,
                path.string() + " has schema version " + std::to_string(major) + "." +
                    model.at("schema_version").at("minor").dump() + ", " +
                    (major > kSchemaMajor ? "newer" : "older") + " than the " +
                    std::to_string(kSchemaMajor) + ".x that is understood");
  }
}

const Json& call_signature_of(const Json& graph_module) {
  for (const Json& entry : graph_module.at("module_call_graph")) {
    if (entry.at("fqn") == "" && !entry.at("signature").is_null()) {
      return entry.at("signature");
    }
  }
  throw Error(ErrorCode::kCorrupt, "the program has no call signature");
}

// "[1, spec]": a version and the tree.
Json tree_of(const std::string& spec) {
  Json parsed = Json::parse(spec);
  if (!parsed.is_array() || parsed.size() != 2 || parsed[0] != 1) {
    throw Error(ErrorCode::kIncompatible,
                "the call spec has an unknown version: " + spec.substr(0, 40));
  }
  return parsed[1];
}

std::size_t leaf_count(const Json& tree) {
  if (tree.at("type").is_null()) {
    return 1;
  }
  std::size_t count = 0;
  for (const Json& child : tree.at("children_spec")) {
    count += leaf_count(child);
  }
  return count;
}

// A tensor of the right geometry for a trace, where the archive brings none: values do not matter.
at::Tensor invent_sample(const SerializedTensor& meta) {
  at::Tensor tensor = at::empty_strided(
      meta.sizes, meta.strides, at::TensorOptions().dtype(meta.dtype).device(meta.device));
  return at::isFloatingType(meta.dtype) ? tensor.fill_(0.5) : tensor.zero_();
}

class SignatureReader {
 public:
  SignatureReader(ArchivedProgram& program,
                  std::map<std::string, at::Tensor> tensors,
                  std::optional<std::vector<std::optional<at::Tensor>>> samples)
      : program_(program), tensors_(std::move(tensors)), samples_(std::move(samples)) {}

  void read_inputs() {
    for (const Json& spec : program_.signature.at("input_specs")) {
      const auto [tag, value] = read_union(spec);
      if (tag == "parameter") {
        own(value.at("parameter_name"), ir::InputKind::kParameter);
      } else if (tag == "buffer") {
        own(value.at("buffer_name"), ir::InputKind::kBuffer);
        if (!value.at("persistent").get<bool>()) {
          program_.non_persistent_buffers.insert(value.at("buffer_name").get<std::string>());
        }
      } else if (tag == "tensor_constant") {
        own(value.at("tensor_constant_name"), ir::InputKind::kConstant);
      } else if (tag == kToken) {
        continue;
      } else if (tag == "user_input") {
        read_user_input(value.at("arg"));
      } else if (tag == "constant_input") {
        const auto [kind, constant] = read_union(value.at("value"));
        program_.input_leaves.push_back({.constant = kind == "as_none" ? "null" : constant.dump()});
        ++leaf_;
      } else {
        throw Error(ErrorCode::kUnsupported,
                    "a program with an input of kind " + tag + " cannot be traced");
      }
    }
  }

  void read_outputs() {
    std::uint32_t next = 0;
    for (const Json& spec : program_.signature.at("output_specs")) {
      const auto [tag, value] = read_union(spec);
      if (tag == "user_output") {
        const auto [kind, constant] = read_union(value.at("arg"));
        if (kind == "as_tensor") {
          program_.output_leaves.push_back({.tensor = next++});
        } else if (kind == "as_none") {
          program_.output_leaves.push_back({.constant = "null"});
        } else if (kind.starts_with("as_sym_")) {
          read_number(kind, constant);
        } else {
          program_.output_leaves.push_back({.constant = constant.dump()});
        }
      } else if (tag != kToken && tag != "buffer_mutation" && tag != "user_input_mutation" &&
                 tag != "parameter_mutation") {
        throw Error(ErrorCode::kUnsupported,
                    "a program with an output of kind " + tag + " cannot be traced");
      }
    }
  }

 private:
  void own(const Json& name_json, ir::InputKind kind) {
    const auto name = name_json.get<std::string>();
    const auto found = tensors_.find(name);
    if (found == tensors_.end()) {
      throw Error(ErrorCode::kCorrupt, "the archive has no tensor " + name);
    }
    // Models have no constants with gaps or repetitions (a buffer that was expanded, or sliced).
    const at::Tensor& tensor = found->second;
    const bool is_copied = !tensor.is_non_overlapping_and_dense() && is_alone(tensor);
    program_.owned.push_back({name, is_copied ? gapless(tensor) : tensor, kind});
  }

  static at::Tensor gapless(const at::Tensor& tensor) {
    return tensor.detach().contiguous().requires_grad_(tensor.requires_grad());
  }

  // Whether nothing else of the archive lies on its memory.
  [[nodiscard]] bool is_alone(const at::Tensor& tensor) const {
    return std::ranges::count_if(
               tensors_, [&](const auto& entry) { return entry.second.is_alias_of(tensor); }) == 1;
  }

  void read_user_input(const Json& argument) {
    const auto [tag, value] = read_union(argument);
    const std::size_t leaf = leaf_++;
    program_.input_leaves.push_back(
        {.tensor = static_cast<std::uint32_t>(program_.sample_inputs.size())});
    if (tag != "as_tensor") {
      if (tag != "as_sym_int") {
        throw Error(ErrorCode::kUnsupported,
                    "a program with a user input of kind " + tag + " cannot be traced");
      }
      read_integer(read_union(value).value.get<std::string>());
      return;
    }
    const auto name = value.at("name").get<std::string>();
    const Json& meta = program_.graph.at("tensor_values").at(name);
    program_.input_names.push_back(name);
    program_.input_sizes.push_back(symbolic_sizes(meta.at("sizes"), program_.symbols));
    const bool given = samples_ && leaf < samples_->size() && (*samples_)[leaf];
    program_.sample_inputs.push_back(given ? *(*samples_)[leaf]
                                           : invent_sample(read_tensor_meta(meta)));
  }

  // A number among the results: one that varies with sizes has a name.
  void read_number(const std::string& kind, const Json& number) {
    const auto [form, literal] = read_union(number);
    if (form != "as_name") {
      program_.output_leaves.push_back({.constant = literal.dump()});
      return;
    }
    const auto name = literal.get<std::string>();
    if (kind != "as_sym_int") {
      throw Error(ErrorCode::kUnsupported,
                  "a program that returns " + name +
                      ", a number that depends on sizes and is no integer, cannot be traced");
    }
    const Json& serialized = program_.graph.at("sym_int_values").at(name);
    Leaf leaf{.constant = symbol_value(name)};
    if (const auto [tag, value] = read_union(serialized); tag == "as_expr") {
      const auto text = value.at("expr_str").get<std::string>();
      try {
        leaf.size = parse_srepr(text);
      } catch (const Error&) {
        program_.unread_result = text;
      }
    }
    program_.output_leaves.push_back(std::move(leaf));
  }

  void read_integer(const std::string& name) {
    const Json& serialized = program_.graph.at("sym_int_values").at(name);
    const auto [tag, value] = read_union(serialized);
    const std::int64_t sample = read_int(serialized);
    const ir::Expr expr =
        tag == "as_expr" ? parse_srepr(value.at("expr_str").get<std::string>()) : ir::Expr(sample);
    program_.input_integers.push_back(
        {.name = name,
         .expr = expr,
         .value = sample,
         .input = static_cast<std::uint32_t>(program_.sample_inputs.size()),
         .is_length = !expr.is_constant() && can_be_length(sample)});
    const SymbolicInteger& integer = program_.input_integers.back();
    program_.input_names.push_back(name);
    program_.input_sizes.push_back(integer.is_length ? std::vector{expr} : std::vector<ir::Expr>());
    program_.sample_inputs.push_back(stand_in_for(integer));
  }

  [[nodiscard]] std::string symbol_value(const std::string& name) const {
    return std::to_string(read_int(program_.graph.at("sym_int_values").at(name)));
  }

  ArchivedProgram& program_;
  std::map<std::string, at::Tensor> tensors_;
  std::optional<std::vector<std::optional<at::Tensor>>> samples_;
  std::size_t leaf_ = 0;
};

std::optional<ir::Expr> size_of_input(const ArchivedProgram& program,
                                      const std::string& name,
                                      std::optional<std::size_t> dim) {
  if (!dim) {
    const auto integer = std::ranges::find(program.input_integers, name, &SymbolicInteger::name);
    if (integer == program.input_integers.end()) {
      return std::nullopt;
    }
    return integer->is_length ? integer->expr : ir::Expr(integer->value);
  }
  const auto found = std::ranges::find(program.input_names, name);
  if (found == program.input_names.end()) {
    return std::nullopt;
  }
  const auto input = static_cast<std::size_t>(found - program.input_names.begin());
  const std::vector<ir::Expr>& sizes = program.input_sizes[input];
  if (*dim < sizes.size()) {
    return sizes[*dim];
  }
  const at::Tensor& sample = program.sample_inputs[input];
  return *dim < static_cast<std::size_t>(sample.dim())
             ? std::optional<ir::Expr>(sample.size(static_cast<std::int64_t>(*dim)))
             : std::nullopt;
}

std::string model_text(const ArchiveFile& archive, const std::string& name) {
  return archive.text(std::string(kModels) + name + std::string(kJson));
}

ArchivedProgram read_model(const ArchiveFile& archive, const std::string& name) {
  const std::string text = model_text(archive, name);
  Json model = Json::parse(text);
  check_version(model, archive.path());
  ArchivedProgram program;
  if (may_mention_gpu(text)) {
    program.device = move_to_cpu(model.at("graph_module"));
  }
  const Json& graph_module = model.at("graph_module");
  const Json& call = call_signature_of(graph_module);

  program.graph = graph_module.at("graph");
  program.signature = graph_module.at("signature");
  program.in_spec = call.at("in_spec").get<std::string>();
  program.out_spec = call.at("out_spec").get<std::string>();
  program.symbols = read_ranges(model.at("range_constraints"));
  program.expressions = read_expressions(program.graph);
  program.real_expressions = read_real_expressions(program.graph);
  const Json in_tree = tree_of(program.in_spec);
  SignatureReader reader(
      program, read_weights(archive, name), read_sample_inputs(archive, name, in_tree));
  reader.read_inputs();
  reader.read_outputs();
  if (const auto guards = model.find("guards_code"); guards != model.end()) {
    program.guards = read_guards(*guards, [&](const std::string& input, auto dim) {
      return size_of_input(program, input, dim);
    });
  }
  if (program.input_leaves.size() != leaf_count(in_tree) ||
      program.output_leaves.size() != leaf_count(tree_of(program.out_spec))) {
    throw Error(ErrorCode::kCorrupt, "the call spec and the signature of the program disagree");
  }
  return program;
}

const at::Tensor& tensor_named(const std::vector<OwnedTensor>& owned, const std::string& name) {
  const auto found = std::find_if(
      owned.begin(), owned.end(), [&](const OwnedTensor& tensor) { return tensor.name == name; });
  if (found == owned.end()) {
    throw Error(ErrorCode::kCorrupt, "the program updates " + name + ", which it does not have");
  }
  return found->tensor;
}

}  // namespace

Tensors ArchivedProgram::run(const Tensors& user_inputs) const {
  std::vector<c10::IValue> inputs;
  std::size_t next_owned = 0;
  std::size_t next_leaf = 0;
  for (const Json& spec : signature.at("input_specs")) {
    const auto [tag, value] = read_union(spec);
    if (tag == kToken) {
      inputs.emplace_back();
      continue;
    }
    if (tag != "user_input" && tag != "constant_input") {
      inputs.emplace_back(owned[next_owned++].tensor);
      continue;
    }
    const Leaf& leaf = input_leaves[next_leaf++];
    if (leaf.tensor) {
      inputs.push_back(passed_value(*this, *leaf.tensor, user_inputs.at(*leaf.tensor)));
    } else {
      const Json constant = Json::parse(leaf.constant);
      inputs.push_back(constant.is_number_integer() ? c10::IValue(constant.get<std::int64_t>())
                                                    : c10::IValue());
    }
  }
  const std::vector<c10::IValue> results = run_graph(graph, std::move(inputs));

  Tensors outputs;
  std::vector<std::pair<at::Tensor, at::Tensor>> updates;
  const Json& specs = signature.at("output_specs");
  if (specs.size() != results.size()) {
    throw Error(ErrorCode::kCorrupt,
                "the graph and the signature have different numbers of outputs");
  }
  for (std::size_t i = 0; i < specs.size(); ++i) {
    const auto [tag, value] = read_union(specs[i]);
    if (tag == kToken) {
      continue;
    }
    if (tag == "user_output") {
      if (value.at("arg").contains("as_tensor")) {
        outputs.push_back(results[i].toTensor());
      }
    } else if (tag == "user_input_mutation") {
      const auto name = value.at("user_input_name").get<std::string>();
      const auto input = std::find(input_names.begin(), input_names.end(), name);
      if (input == input_names.end()) {
        throw Error(ErrorCode::kCorrupt,
                    "the program updates the input " + name + ", which it does not have");
      }
      updates.emplace_back(user_inputs[static_cast<std::size_t>(input - input_names.begin())],
                           results[i].toTensor());
    } else {
      const char* key = tag == "buffer_mutation" ? "buffer_name" : "parameter_name";
      updates.emplace_back(tensor_named(owned, value.at(key).get<std::string>()),
                           results[i].toTensor());
    }
  }
  for (auto& [target, value] : updates) {
    target.copy_(value);
  }
  return outputs;
}

// What `read` returns; JSON and libtorch do not know which file they fail at.
template <class Read>
auto read_from(const std::filesystem::path& path, const Read& read) {
  try {
    return read();
  } catch (const Json::exception& error) {
    throw Error(ErrorCode::kCorrupt,
                path.string() + " does not follow the schema: " + error.what());
  } catch (const c10::Error& error) {
    // A geometry that no tensor can have.
    const std::string message = error.what_without_backtrace();
    throw Error(ErrorCode::kCorrupt,
                path.string() + " has an invalid tensor: " + message.substr(0, message.find('\n')));
  }
}

ArchivedProgram read_archive(const std::filesystem::path& path) {
  const ArchiveFile archive(path);
  return read_from(path, [&] { return read_model(archive, only_model_of(archive)); });
}

ir::DeviceType device_of_archive(const std::filesystem::path& path) {
  const ArchiveFile archive(path);
  const std::string text = model_text(archive, only_model_of(archive));
  if (!may_mention_gpu(text)) {
    return ir::DeviceType::kCpu;
  }
  return read_from(path, [&] {
    Json model = Json::parse(text);
    return move_to_cpu(model.at("graph_module"));
  });
}

}  // namespace kiln::exporter
