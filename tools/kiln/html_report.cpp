#include "html_report.hpp"

#include <algorithm>
#include <cstdio>
#include <numeric>
#include <set>
#include <sstream>

#include "draw.hpp"
#include "format.hpp"
#include "kiln/base/error.hpp"
#include "kiln/ir/print.hpp"
#include "picture.hpp"

namespace kiln::tool {
namespace {

constexpr const char* kHead = R"(<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<style>
body { font: 14px/1.5 system-ui, Helvetica, Arial, sans-serif; color: #24313c; margin: 0 auto;
       max-width: 1100px; padding: 0 20px 60px; }
h1 { font-size: 22px; margin: 24px 0 4px; } h2 { font-size: 17px; margin: 32px 0 8px; }
p.facts { color: #5a6b7b; margin: 0; }
.bars { display: grid; grid-template-columns: max-content 1fr max-content; gap: 4px 12px; }
.bars .bar { background: #8ecae6; height: 14px; margin-top: 4px; min-width: 1px; border-radius: 3px; }
.picture { overflow: auto; max-height: 70vh; border: 1px solid #d8e0e6; border-radius: 6px; }
.picture svg { display: block; margin: 8px auto; }
.arena { width: 100%; }
details { border: 1px solid #d8e0e6; border-radius: 6px; margin: 6px 0; padding: 4px 10px; }
summary { cursor: pointer; } summary code { font-weight: 600; }
details:target { border-color: #1d7bb9; }
pre { background: #f6f8fa; overflow: auto; max-height: 480px; padding: 10px; border-radius: 6px;
      font-size: 12px; }
table { border-collapse: collapse; } td, th { text-align: left; padding: 2px 14px 2px 0; }
#filter { padding: 4px 8px; width: 280px; }
</style>
)";

// Clicking a kernel in the picture opens its source; typing filters the list.
constexpr const char* kScript = R"(<script>
const kernels = [...document.querySelectorAll('details.kernel')];
document.getElementById('filter').addEventListener('input', event => {
  const words = event.target.value.toLowerCase();
  kernels.forEach(k => k.hidden = !k.textContent.toLowerCase().includes(words));
});
document.querySelectorAll('.picture g.node').forEach(node => {
  const name = (node.textContent.match(/kiln_[0-9a-f]{16}/) || [])[0];
  const kernel = name && document.getElementById(name);
  if (!kernel) return;
  node.style.cursor = 'pointer';
  node.addEventListener('click', () => {
    kernel.open = true;
    kernel.hidden = false;
    kernel.scrollIntoView({behavior: 'smooth'});
  });
});
document.body.dataset.ready = kernels.length;
</script>
)";

// "n = 6, m = 8"
std::string describe_sizes(const ir::Bindings& sizes) {
  std::string text;
  for (const auto& [name, value] : sizes) {
    text += (text.empty() ? "" : ", ") + name + " = " + std::to_string(value);
  }
  return text;
}

std::string milliseconds(double value) {
  char text[32];
  std::snprintf(text, sizeof text, value < 10 ? "%.2f ms" : "%.0f ms", value);
  return text;
}

void write_stages(std::ostream& out, const HtmlReport& page) {
  double longest = 1e-9;
  double total = 0;
  for (const auto& [name, taken] : page.stages) {
    longest = std::max(longest, taken);
    total += taken;
  }
  out << "<h2>Time per stage</h2>\n<div class=\"bars\">\n";
  for (const auto& [name, taken] : page.stages) {
    out << "<span>" << escape_markup(name)
        << "</span><div class=\"bar\" style=\"width:" << 100 * taken / longest << "%\"></div><span>"
        << milliseconds(taken) << "</span>\n";
  }
  out << "</div>\n<p class=\"facts\">" << milliseconds(total) << " in all</p>\n";
}

void write_steps(std::ostream& out, const HtmlReport& page) {
  out << "<h2>Steps of a run</h2>\n<p class=\"facts\">Green boxes are fused kernels, grey ones "
         "calls "
         "of libtorch; on the edges, the bytes that go through memory. A kernel's box leads to its "
         "source.</p>\n";
  std::string picture;
  try {
    picture = draw_dot(steps_to_dot(page.plan, page.graph));
  } catch (const Error& error) {
    out << "<p>There is no picture: " << escape_markup(error.what()) << "</p>\n";
    return;
  }
  // Without the declaration, which has no place inside a page.
  out << "<div class=\"picture\">\n" << picture.substr(picture.find("<svg")) << "</div>\n";
}

void write_kernels(std::ostream& out, const HtmlReport& page) {
  std::vector<std::size_t> calls(page.plan.kernels.size());
  for (const Plan::Step& step : page.plan.steps) {
    if (step.is_kernel) {
      ++calls[step.kernel];
    }
  }
  out << "<h2>Kernels</h2>\n<p><input id=\"filter\" placeholder=\"filter by operator or "
         "source\"></p>\n";
  for (std::size_t i = 0; i < page.plan.kernels.size(); ++i) {
    const Plan::Kernel& kernel = page.plan.kernels[i];
    out << "<details class=\"kernel\" id=\"" << kernel.name << "\"><summary><code>" << kernel.name
        << "</code> " << calls[i] << (calls[i] == 1 ? " call: " : " calls: ")
        << escape_markup(kernel.comment.substr(0, 300)) << "</summary>\n<pre>"
        << escape_markup(kernel_source(page.source, page.plan, kernel.name))
        << "</pre></details>\n";
  }
}

void write_memory(std::ostream& out, const HtmlReport& page) {
  std::int64_t demanded = 0;
  for (const Plan::Buffer& buffer : page.plan.buffers) {
    demanded += buffer.memory == "arena" && buffer.used ? buffer.bytes : 0;
  }
  out << "<h2>Memory plan</h2>\n<p class=\"facts\">The arena has "
      << describe_bytes(static_cast<double>(page.plan.arena_bytes))
      << " for temporaries of together " << describe_bytes(static_cast<double>(demanded))
      << ". Left to right the steps, bottom to top the addresses.</p>\n"
      << arena_to_svg(page.plan);
}

}  // namespace

std::string to_html(const HtmlReport& page) {
  const auto kernel_calls = static_cast<std::size_t>(
      std::count_if(page.plan.steps.begin(), page.plan.steps.end(), [](const Plan::Step& step) {
        return step.is_kernel;
      }));
  std::ostringstream out;
  out << "<!doctype html>\n<html lang=\"en\"><head><title>" << escape_markup(page.title)
      << " - Kiln</title>\n"
      << kHead << "</head><body>\n<h1>" << escape_markup(page.title) << "</h1>\n<p class=\"facts\">"
      << describe_count(page.program.nodes().size(), "node") << ": "
      << describe_count(page.plan.kernels.size(), "kernel") << " in "
      << describe_count(kernel_calls, "call") << ", "
      << describe_count(page.plan.steps.size() - kernel_calls, "libtorch call") << "</p>\n";
  if (!page.sizes.empty()) {
    out << "<p class=\"facts\">Sizes vary. Bytes are those of the example: "
        << escape_markup(describe_sizes(page.sizes)) << "</p>\n";
  }
  write_stages(out, page);
  write_steps(out, page);
  write_memory(out, page);
  write_kernels(out, page);
  out << "<h2>Graph</h2>\n<details><summary>as it was given</summary><pre>"
      << escape_markup(ir::print(page.program))
      << "</pre></details>\n<details><summary>as it was scheduled</summary><pre>"
      << escape_markup(ir::print(page.graph)) << "</pre></details>\n"
      << kScript << "</body></html>\n";
  return out.str();
}

}  // namespace kiln::tool
