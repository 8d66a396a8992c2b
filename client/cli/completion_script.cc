#include "client/cli/completion_script.h"

#include <algorithm>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "client/cli/choices.h"
#include "client/cli/usage_error.h"

namespace attn {
namespace {

// In all that follows %N is the program's name. The tables are functions, which
// both shells understand; a path is "attn layer put".
constexpr char kBashHead[] =
    R"sh(# bash completion for %N; made by: %N completion bash
)sh";

// A word in bash ends at "=", so that --flag=value and NAME=FILE are three.
constexpr char kBashWalk[] = R"sh(
_%N_is_command() {
  local line
  while IFS= read -r line; do
    [[ ${line%%:*} == "$2" ]] && return 0
  done < <(_%N_commands "$1")
  return 1
}

_%N() {
  local current=${COMP_WORDS[COMP_CWORD]}
  local where=%N flag='' last='' stem='' kind='' words='' word i
  COMPREPLY=()
  for ((i = 1; i < COMP_CWORD; i++)); do
    word=${COMP_WORDS[i]}
    if [[ $word == '=' ]]; then
      flag=$last
    elif [[ -n $flag ]]; then
      flag=''
    elif [[ $word == -*=* ]]; then
      last=''
    elif [[ $word == -* ]]; then
      last=$word
      case $(_%N_value "$where" "$word") in
        '' | flag | maybe*) ;;
        *) flag=$word ;;
      esac
    else
      last=''
      _%N_is_command "$where" "$word" && where="$where $word"
    fi
  done
  if [[ $current == '=' ]]; then
    flag=$last
    current=''
  elif [[ -z $flag && $current == -*=* ]]; then
    flag=${current%%=*}
    stem="$flag="
    current=${current#*=}
  fi
  if [[ -n $flag ]]; then
    kind=$(_%N_value "$where" "$flag")
  elif [[ $current == -* ]]; then
    while IFS= read -r word; do words+=" ${word%%:*}"; done \
      < <(_%N_options "$where")
    kind="one$words"
  else
    while IFS= read -r word; do words+=" ${word%%:*}"; done \
      < <(_%N_commands "$where")
    kind=$(_%N_value "$where" argument)
    [[ -n $words ]] && kind="one$words"
  fi
  if [[ $kind == list\ * ]]; then
    stem="$stem${current%"${current##*,}"}"
    current=${current##*,}
    compopt -o nospace 2>/dev/null
  fi
  case $kind in
    file)
      compopt -o filenames 2>/dev/null
      while IFS= read -r word; do COMPREPLY+=("$stem$word"); done \
        < <(compgen -f -- "$current")
      ;;
    one\ * | maybe\ * | list\ *)
      while IFS= read -r word; do COMPREPLY+=("$stem$word"); done \
        < <(compgen -W "${kind#* }" -- "$current")
      ;;
  esac
}

complete -F _%N %N
)sh";

constexpr char kZshHead[] = R"sh(#compdef %N
# zsh completion for %N; made by: %N completion zsh
)sh";

constexpr char kZshWalk[] = R"sh(
_%N() {
  local where=%N flag='' kind word
  local -a lines
  integer i
  for ((i = 2; i < CURRENT; i++)); do
    word=${words[i]}
    if [[ -n $flag ]]; then
      flag=''
    elif [[ $word == -*=* ]]; then
      continue
    elif [[ $word == -* ]]; then
      case "$(_%N_value "$where" "$word")" in
        ('' | flag | maybe*) ;;
        (*) flag=$word ;;
      esac
    else
      lines=("${(@f)$(_%N_commands "$where")}")
      if [[ -n ${(M)lines:#$word:*} ]]; then where="$where $word"; fi
    fi
  done
  if [[ -z $flag && $PREFIX == -*=* ]]; then
    flag=${PREFIX%%=*}
    compset -P '*='
  fi
  if [[ -n $flag ]]; then
    kind=$(_%N_value "$where" "$flag")
  elif [[ $PREFIX == -* ]]; then
    lines=("${(@f)$(_%N_options "$where")}")
    _describe -t options option lines
    return
  else
    lines=("${(@f)$(_%N_commands "$where")}")
    if [[ -n ${lines[*]} ]]; then
      _describe -t commands command lines
      return
    fi
    kind=$(_%N_value "$where" argument)
  fi
  case $kind in
    (file)
      if [[ $PREFIX == *=* ]]; then compset -P '*='; fi
      _files
      ;;
    (list\ *)
      compset -P '*,'
      compadd -S '' -- ${=kind#* }
      ;;
    (one\ * | maybe\ *) compadd -- ${=kind#* } ;;
  esac
}

if [[ ${funcstack[1]:-} == _%N ]]; then
  _%N "$@"
else
  compdef _%N %N
fi
)sh";

std::string Quote(const std::string& text) {
  return absl::StrCat("'", absl::StrReplaceAll(text, {{"'", "'\\''"}}), "'");
}

struct CompletionEntry {
  std::string name;
  std::string description;
};

// Entries as words of the shell: 'name:description'.
std::vector<std::string> Words(const std::vector<CompletionEntry>& entries) {
  std::vector<std::string> words;
  words.reserve(entries.size());
  for (const CompletionEntry& entry : entries) {
    words.push_back(Quote(
        absl::StrCat(entry.name, ":",
                     absl::StrReplaceAll(entry.description, {{"\n", " "}}))));
  }
  return words;
}

// What may follow an option, or be an argument.
std::string KindOf(const CLI::Option& option) {
  if (IsFlag(option)) return "flag";
  if (TakesFile(option)) return "file";
  const std::vector<std::string> choices = ChoicesOf(option);
  const std::string words = absl::StrJoin(choices, " ");
  if (MayStandAlone(option)) return absl::StrCat("maybe ", words);
  if (choices.empty()) return "text";
  return absl::StrCat(option.get_delimiter() == ',' ? "list " : "one ", words);
}

// Every way to write the option.
std::vector<std::string> Spellings(const CLI::Option& option) {
  std::vector<std::string> names;
  for (const std::string& name : option.get_lnames()) {
    names.push_back("--" + name);
  }
  for (const std::string& name : option.get_snames()) {
    names.push_back("-" + name);
  }
  return names;
}

// The functions' bodies: lines of a `case`.
struct Tables {
  std::string commands;
  std::string options;
  std::string values;
};

std::string Line(const std::string& path,
                 const std::vector<CompletionEntry>& entries) {
  return absl::StrCat(
      "    ", Quote(path), ")\n      printf '%s\\n' \\\n        ",
      absl::StrJoin(Words(entries), " \\\n        "), "\n      ;;\n");
}

void AppendUnlessThere(const CompletionEntry& entry,
                       std::vector<CompletionEntry>& entries) {
  const bool there = std::any_of(
      entries.begin(), entries.end(),
      [&](const CompletionEntry& e) { return e.name == entry.name; });
  if (!there) entries.push_back(entry);
}

// `inherited`: the options of the commands around `app`, which it takes too.
void Fill(const CLI::App& app, const std::vector<CompletionEntry>& inherited,
          Tables& tables) {
  const std::string path = PathOf(app);
  std::string arguments = "text";
  std::string values;
  std::vector<CompletionEntry> options;
  for (const CLI::Option* option : app.get_options()) {
    const std::string kind = KindOf(*option);
    if (!option->nonpositional() && kind != "text") arguments = kind;
    for (const std::string& name : Spellings(*option)) {
      options.push_back({name, option->get_description()});
      absl::StrAppend(&values, "    ", Quote(path), "*", Quote(" " + name),
                      ") printf '%s\\n' ", Quote(kind), " ;;\n");
    }
  }
  absl::StrAppend(&values, "    ", Quote(path + " argument"),
                  ") printf '%s\\n' ", Quote(arguments), " ;;\n");
  for (const CompletionEntry& entry : inherited)
    AppendUnlessThere(entry, options);
  tables.options += Line(path, options);
  std::vector<CompletionEntry> commands;
  for (const CLI::App* command :
       app.get_subcommands([](const CLI::App*) { return true; })) {
    commands.push_back({command->get_name(), command->get_description()});
    Fill(*command, options, tables);
  }
  // A command's own options come before those of the commands around it.
  tables.values += values;
  if (!commands.empty()) tables.commands += Line(path, commands);
}

std::string Function(const char* name, const char* subject,
                     const std::string& cases) {
  return absl::StrCat("\n_%N_", name, "() {\n  case ", subject, " in\n", cases,
                      "  esac\n}\n");
}

std::string Script(const CLI::App& app, const char* head, const char* walk) {
  Tables tables;
  Fill(app, {}, tables);
  const std::string text =
      absl::StrCat(head, Function("commands", "\"$1\"", tables.commands),
                   Function("options", "\"$1\"", tables.options),
                   Function("value", "\"$1 $2\"", tables.values), walk);
  return absl::StrReplaceAll(text, {{"%N", app.get_name()}});
}

}  // namespace

std::string BashCompletion(const CLI::App& app) {
  return Script(app, kBashHead, kBashWalk);
}

std::string ZshCompletion(const CLI::App& app) {
  return Script(app, kZshHead, kZshWalk);
}

}  // namespace attn
