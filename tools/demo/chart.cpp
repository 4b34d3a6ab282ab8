#include "chart.hpp"

#include <algorithm>
#include <cstdio>
#include <iostream>
#include <sstream>

#include "kiln/base/file.hpp"

namespace kiln::demo {
namespace {

double longest(const Panel& panel) {
  double most = 0;
  for (const Bar& bar : panel.bars) {
    most = std::max(most, bar.milliseconds);
  }
  return most;
}

}  // namespace

std::string describe_time(double milliseconds) {
  char text[32];
  if (milliseconds >= 1000) {
    std::snprintf(text, sizeof text, "%.1f s", milliseconds / 1000);
  } else if (milliseconds >= 1) {
    std::snprintf(text, sizeof text, "%.1f ms", milliseconds);
  } else {
    std::snprintf(text, sizeof text, "%.1f us", milliseconds * 1000);
  }
  return text;
}

void print_chart(const std::vector<Panel>& panels) {
  constexpr int kWidth = 44;
  for (const Panel& panel : panels) {
    std::cout << "\n" << panel.title << "\n";
    for (const Bar& bar : panel.bars) {
      const int length = std::max(1, static_cast<int>(kWidth * bar.milliseconds / longest(panel)));
      std::string filled;
      for (int i = 0; i < length; ++i) {
        filled += bar.ours ? "█" : "▒";
      }
      std::printf("  %-14s %s %s\n",
                  bar.name.c_str(),
                  filled.c_str(),
                  describe_time(bar.milliseconds).c_str());
    }
  }
}

void write_chart(const std::vector<Panel>& panels, const std::filesystem::path& svg) {
  constexpr int kLeft = 150, kWidth = 420, kRow = 26, kTitle = 40;
  std::ostringstream body;
  int y = 10;
  for (const Panel& panel : panels) {
    y += kTitle;
    body << "<text x=\"16\" y=\"" << y - 14 << "\" class=\"title\">" << panel.title << "</text>\n";
    for (const Bar& bar : panel.bars) {
      const int length = std::max(2, static_cast<int>(kWidth * bar.milliseconds / longest(panel)));
      body << "<text x=\"" << kLeft - 10 << "\" y=\"" << y + 15 << "\" text-anchor=\"end\">"
           << bar.name << "</text>"
           << "<rect x=\"" << kLeft << "\" y=\"" << y << "\" width=\"" << length
           << "\" height=\"20\" rx=\"3\" class=\"" << (bar.ours ? "ours" : "peer") << "\"/>"
           << "<text x=\"" << kLeft + length + 8 << "\" y=\"" << y + 15 << "\">"
           << describe_time(bar.milliseconds) << "</text>\n";
      y += kRow;
    }
  }
  std::ostringstream picture;
  picture << "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"680\" height=\"" << y + 16
          << "\" viewBox=\"0 0 680 " << y + 16 << "\">\n"
          << "<style>text{font:13px sans-serif;fill:#333}.title{font-weight:bold;font-size:14px}"
             ".ours{fill:#c4501b}.peer{fill:#b9b4ab}</style>\n"
          << "<rect width=\"100%\" height=\"100%\" fill=\"#fffdf9\"/>\n"
          << body.str() << "</svg>\n";
  write_file_atomically(svg, picture.str());
}

}  // namespace kiln::demo
