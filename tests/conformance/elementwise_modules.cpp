#include "module_cases.hpp"

namespace kiln::testing {
namespace {

template <class Holder>
ModuleCase plain(const std::string& name) {
  return module_case(name, [] { return Holder(); }, [] { return Tensors{normal({2, 4, 6})}; });
}

// Of two numbers for each element.
template <class Holder>
ModuleCase loss(const std::string& name, const std::function<Tensors()>& arguments) {
  return module_case<2>(name, [] { return Holder(); }, arguments);
}

template <class Holder, class Options>
ModuleCase padding(const std::string& name,
                   std::vector<std::int64_t> shape,
                   const Options& options) {
  return module_case(name, [=] { return Holder(options); }, [=] { return Tensors{normal(shape)}; });
}

void add_activations(std::vector<ModuleCase>& cases) {
  using namespace torch::nn;
  cases.insert(cases.end(),
               {plain<ELU>("ELU"),
                plain<SELU>("SELU"),
                plain<Hardshrink>("Hardshrink"),
                plain<Hardtanh>("Hardtanh"),
                plain<LeakyReLU>("LeakyReLU"),
                plain<LogSigmoid>("LogSigmoid"),
                plain<PReLU>("PReLU"),
                plain<ReLU>("ReLU"),
                plain<ReLU6>("ReLU6"),
                plain<RReLU>("RReLU"),
                plain<CELU>("CELU"),
                plain<GLU>("GLU"),
                plain<GELU>("GELU"),
                plain<SiLU>("SiLU"),
                plain<Mish>("Mish"),
                plain<Sigmoid>("Sigmoid"),
                plain<Softplus>("Softplus"),
                plain<Softshrink>("Softshrink"),
                plain<Softsign>("Softsign"),
                plain<Tanh>("Tanh"),
                plain<Tanhshrink>("Tanhshrink"),
                plain<Softmax2d>("Softmax2d"),
                plain<Identity>("Identity"),
                plain<Flatten>("Flatten")});
  const auto with = [&](const std::string& name, auto make) {
    cases.push_back(module_case(name, make, [] { return Tensors{normal({2, 4, 6})}; }));
  };
  with("Softmax", [] { return Softmax(SoftmaxOptions(1)); });
  with("Softmin", [] { return Softmin(SoftminOptions(1)); });
  with("LogSoftmax", [] { return LogSoftmax(LogSoftmaxOptions(2)); });
  with("Threshold", [] { return Threshold(ThresholdOptions(0.1, 20)); });
  with("PReLU of each channel", [] { return PReLU(PReLUOptions().num_parameters(4)); });
  with("GELU tanh", [] { return GELU(GELUOptions().approximate("tanh")); });
  with("Unflatten", [] { return Unflatten(UnflattenOptions(2, {2, 3})); });
  with("Functional", [] { return Functional([](const torch::Tensor& x) { return x.sin(); }); });
  cases.push_back(module_case(
      "ReLU in place",
      [] { return Sequential(Linear(4, 4), ReLU(ReLUOptions(true))); },
      [] { return Tensors{normal({3, 4})}; }));
}

void add_random(std::vector<ModuleCase>& cases) {
  using namespace torch::nn;
  const auto on = [&](const std::string& name, auto make, std::vector<std::int64_t> shape) {
    cases.push_back(module_case(name, make, [=] { return Tensors{normal(shape)}; }));
  };
  on("Dropout", [] { return Dropout(0.3); }, {4, 8});
  on("Dropout2d", [] { return Dropout2d(0.3); }, {2, 4, 3, 3});
  on("Dropout3d", [] { return Dropout3d(0.3); }, {2, 4, 2, 3, 3});
  on("AlphaDropout", [] { return AlphaDropout(0.3); }, {4, 8});
  on("FeatureAlphaDropout", [] { return FeatureAlphaDropout(0.3); }, {2, 4, 3, 3});
}

void add_padding(std::vector<ModuleCase>& cases) {
  using namespace torch::nn;
  const std::vector<std::int64_t> line = {2, 3, 5}, plane = {2, 3, 4, 5}, space = {1, 2, 3, 4, 4};
  cases.insert(
      cases.end(),
      {padding<ReflectionPad1d>("ReflectionPad1d", line, ReflectionPad1dOptions({1, 2})),
       padding<ReflectionPad2d>("ReflectionPad2d", plane, ReflectionPad2dOptions({1, 2, 1, 0})),
       padding<ReflectionPad3d>("ReflectionPad3d", space, ReflectionPad3dOptions(1)),
       padding<ReplicationPad1d>("ReplicationPad1d", line, ReplicationPad1dOptions({1, 2})),
       padding<ReplicationPad2d>("ReplicationPad2d", plane, ReplicationPad2dOptions({1, 2, 1, 0})),
       padding<ReplicationPad3d>("ReplicationPad3d", space, ReplicationPad3dOptions(1)),
       padding<ZeroPad1d>("ZeroPad1d", line, ZeroPad1dOptions({1, 2})),
       padding<ZeroPad2d>("ZeroPad2d", plane, ZeroPad2dOptions({1, 2, 1, -1})),
       padding<ZeroPad3d>("ZeroPad3d", space, ZeroPad3dOptions(1)),
       padding<ConstantPad1d>("ConstantPad1d", line, ConstantPad1dOptions({1, 2}, 3.5)),
       padding<ConstantPad2d>("ConstantPad2d", plane, ConstantPad2dOptions({1, 2, 0, 1}, -1)),
       padding<ConstantPad3d>("ConstantPad3d", space, ConstantPad3dOptions(1, 3.5)),
       padding<PixelShuffle>("PixelShuffle", {2, 8, 3, 3}, PixelShuffleOptions(2)),
       padding<PixelUnshuffle>("PixelUnshuffle", {2, 2, 4, 6}, PixelUnshuffleOptions(2)),
       padding<Fold>("Fold", {2, 12, 12}, FoldOptions({4, 5}, {2, 2})),
       padding<Unfold>("Unfold", {2, 3, 4, 5}, UnfoldOptions({2, 3}))});
}

void add_losses(std::vector<ModuleCase>& cases) {
  using namespace torch::nn;
  const auto numbers = [] { return Tensors{normal({3, 5}), normal({3, 5})}; };
  const auto classes = [] { return Tensors{normal({3, 5}), integers(5, {3})}; };
  cases.insert(
      cases.end(),
      {loss<L1Loss>("L1Loss", numbers),
       loss<MSELoss>("MSELoss", numbers),
       loss<SmoothL1Loss>("SmoothL1Loss", numbers),
       loss<HuberLoss>("HuberLoss", numbers),
       loss<BCELoss>("BCELoss", [] { return Tensors{unit({3, 5}), torch::rand({3, 5})}; }),
       loss<BCEWithLogitsLoss>("BCEWithLogitsLoss",
                               [] { return Tensors{normal({3, 5}), torch::rand({3, 5})}; }),
       loss<KLDivLoss>("KLDivLoss", [] { return Tensors{normal({3, 5}), unit({3, 5})}; }),
       loss<HingeEmbeddingLoss>("HingeEmbeddingLoss",
                                [] { return Tensors{normal({3, 5}), signs({3, 5})}; }),
       loss<SoftMarginLoss>("SoftMarginLoss",
                            [] { return Tensors{normal({3, 5}), signs({3, 5})}; }),
       loss<MultiMarginLoss>("MultiMarginLoss", classes),
       loss<MultiLabelMarginLoss>(
           "MultiLabelMarginLoss",
           [] { return Tensors{normal({2, 4}), torch::tensor({{3, 0, -1, 1}, {1, -1, 0, 2}})}; }),
       loss<MultiLabelSoftMarginLoss>(
           "MultiLabelSoftMarginLoss",
           [] { return Tensors{normal({3, 5}), torch::randint(2, {3, 5}, torch::kFloat)}; }),
       loss<PoissonNLLLoss>("PoissonNLLLoss",
                            [] { return Tensors{normal({3, 5}), torch::rand({3, 5}) * 4}; }),
       loss<NLLLoss>("NLLLoss", classes),
       loss<CrossEntropyLoss>("CrossEntropyLoss", classes),
       loss<CosineSimilarity>("CosineSimilarity", numbers),
       loss<PairwiseDistance>("PairwiseDistance", numbers),
       module_case<3>(
           "CosineEmbeddingLoss",
           [] { return CosineEmbeddingLoss(); },
           [] { return Tensors{normal({3, 5}), normal({3, 5}), signs({3})}; }),
       module_case<3>(
           "MarginRankingLoss",
           [] { return MarginRankingLoss(); },
           [] { return Tensors{normal({5}), normal({5}), signs({5})}; }),
       module_case<3>(
           "TripletMarginLoss",
           [] { return TripletMarginLoss(); },
           [] { return Tensors{normal({3, 5}), normal({3, 5}), normal({3, 5})}; }),
       module_case<3>(
           "TripletMarginWithDistanceLoss",
           [] { return TripletMarginWithDistanceLoss(); },
           [] { return Tensors{normal({3, 5}), normal({3, 5}), normal({3, 5})}; })});
  cases.push_back(refused(module_case<4>(
                              "CTCLoss",
                              [] { return CTCLoss(); },
                              [] {
                                return Tensors{
                                    normal({6, 2, 5}).log_softmax(2).detach().requires_grad_(),
                                    integers(4, {2, 3}) + 1,
                                    torch::tensor({6, 5}),
                                    torch::tensor({3, 2})};
                              }),
                          "data-dependent output shape"));
}

}  // namespace

std::vector<ModuleCase> elementwise_modules() {
  std::vector<ModuleCase> cases;
  add_activations(cases);
  add_random(cases);
  add_padding(cases);
  add_losses(cases);
  return cases;
}

}  // namespace kiln::testing
