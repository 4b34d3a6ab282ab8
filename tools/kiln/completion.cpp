// kiln completion: what a shell needs to complete command lines of kiln, made from the command line
// itself.

#include <iostream>
#include <memory>
#include <sstream>

#include "commands.hpp"
#include "kiln/base/error.hpp"

namespace kiln::tool {
namespace {

std::vector<const CLI::App*> subcommands(const CLI::App& app) {
  return app.get_subcommands([](const CLI::App*) { return true; });
}

// "--json --output -o", and the names of subcommands.
std::string words_after(const CLI::App& app) {
  std::string words;
  const auto add = [&](const std::string& word) { words += (words.empty() ? "" : " ") + word; };
  for (const CLI::App* command : subcommands(app)) {
    add(command->get_name());
  }
  for (const CLI::Option* option : app.get_options()) {
    for (const std::string& name : option->get_snames()) {
      add("-" + name);
    }
    for (const std::string& name : option->get_lnames()) {
      add("--" + name);
    }
  }
  return words;
}

// Files are completed where no word fits.
std::string for_bash(const CLI::App& app) {
  std::ostringstream out;
  out << "_kiln() {\n"
         "  local current=${COMP_WORDS[COMP_CWORD]} command=${COMP_WORDS[1]} words\n"
         "  if ((COMP_CWORD == 1)); then\n"
         "    words='"
      << words_after(app) << "'\n  else\n    case $command in\n";
  for (const CLI::App* command : subcommands(app)) {
    out << "      " << command->get_name() << ") words='" << words_after(*command) << "' ;;\n";
  }
  out << "    esac\n  fi\n"
         "  mapfile -t COMPREPLY < <(compgen -W \"$words\" -- \"$current\")\n"
         "  if ((${#COMPREPLY[@]} == 0)); then\n"
         "    mapfile -t COMPREPLY < <(compgen -f -- \"$current\")\n"
         "  fi\n"
         "}\n"
         "complete -o filenames -F _kiln kiln\n";
  return out.str();
}

std::string quoted_for_fish(const std::string& text) {
  std::string result = "'";
  for (const char c : text) {
    result += c == '\'' ? std::string("\\'") : std::string(1, c);
  }
  return result + "'";
}

std::string for_fish(const CLI::App& app) {
  std::ostringstream out;
  for (const CLI::App* command : subcommands(app)) {
    out << "complete -c kiln -n __fish_use_subcommand -a " << command->get_name() << " -d "
        << quoted_for_fish(command->get_description()) << "\n";
    for (const CLI::App* inner : subcommands(*command)) {
      out << "complete -c kiln -n '__fish_seen_subcommand_from " << command->get_name() << "' -a "
          << inner->get_name() << " -d " << quoted_for_fish(inner->get_description()) << "\n";
    }
    for (const CLI::Option* option : command->get_options()) {
      for (const std::string& name : option->get_lnames()) {
        out << "complete -c kiln -n '__fish_seen_subcommand_from " << command->get_name() << "' -l "
            << name << " -d " << quoted_for_fish(option->get_description()) << "\n";
      }
    }
  }
  return out.str();
}

int print_completion(const CLI::App& app, const std::string& shell) {
  if (shell == "fish") {
    std::cout << for_fish(app);
  } else if (shell == "zsh") {
    std::cout << "autoload -U +X bashcompinit && bashcompinit\n" << for_bash(app);
  } else {
    std::cout << for_bash(app);
  }
  return 0;
}

}  // namespace

void add_completion(CLI::App& app, Session& session) {
  const auto shell = std::make_shared<std::string>();
  CLI::App* command = app.add_subcommand("completion", "Print what makes a shell complete kiln");
  command->add_option("shell", *shell, "bash, zsh or fish")
      ->required()
      ->check(CLI::IsMember({"bash", "zsh", "fish"}));
  command->footer(R"(Examples:
  source <(kiln completion bash)                 for this shell; or put the line into ~/.bashrc
  kiln completion fish > ~/.config/fish/completions/kiln.fish)");
  command->callback([shell, &app, &session] {
    session.action = [shell, &app] { return print_completion(app, *shell); };
  });
}

}  // namespace kiln::tool
