// Chat templates against Jinja2's output, origins of text, bounds, errors.
#include "runtime/text/chat_template.h"

#include <ctime>
#include <string>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "schema/base/file.h"
#include "schema/base/json.h"
#include "schema/base/status_matchers.h"

namespace deepslice {
namespace {

absl::StatusOr<std::string> RenderText(const ChatTemplate& t,
                                       const std::vector<ChatMessage>& messages,
                                       bool prompt = true) {
  RenderOptions options;
  options.add_generation_prompt = prompt;
  options.tokens = {{"bos_token", "<s>"}, {"eos_token", "</s>"}};
  options.now = absl::FromUnixSeconds(1721995200);  // 26 July 2024, noon
  DS_ASSIGN_OR_RETURN(const auto pieces, t.Render(messages, options));
  std::string out;
  for (const RenderedPiece& p : pieces) out += p.text;
  return out;
}

// The text with what users wrote in 〈〉.
absl::StatusOr<std::string> RenderMarked(absl::string_view text,
                                         absl::string_view content) {
  DS_ASSIGN_OR_RETURN(const auto t, ChatTemplate::Parse(text));
  DS_ASSIGN_OR_RETURN(const auto pieces,
                      t->Render({{"user", std::string(content)}}, {}));
  std::string out;
  for (const RenderedPiece& p : pieces) {
    absl::StrAppend(&out, p.from_user ? "〈" : "", p.text,
                    p.from_user ? "〉" : "");
  }
  return out;
}

absl::Status RenderStatus(absl::string_view text) {
  return RenderMarked(text, "hello").status();
}

TEST(ChatTemplate, EqualsJinja2OnTemplatesInThePublishedStyle) {
  DS_ASSERT_OK_AND_ASSIGN(
      const std::string file,
      ReadFile(JoinPath(DS_TEXT_TESTDATA, "chat_goldens.json"), 1 << 24));
  DS_ASSERT_OK_AND_ASSIGN(const json::Value goldens, json::Parse(file));
  const auto& cases = goldens.Find("cases")->items();
  ASSERT_EQ(cases.size(), 96u);
  for (const json::Value& c : cases) {
    const std::string& name = c.Find("template")->as_string();
    DS_ASSERT_OK_AND_ASSIGN(
        const auto t, ChatTemplate::Parse(
                          goldens.Find("templates")->Find(name)->as_string()));
    std::vector<ChatMessage> messages;
    for (const json::Value& m : c.Find("messages")->items()) {
      messages.push_back(
          {m.Find("role")->as_string(), m.Find("content")->as_string()});
    }
    const auto text =
        RenderText(*t, messages, c.Find("add_generation_prompt")->as_bool());
    if (const json::Value* raised = c.Find("raised")) {
      EXPECT_EQ(text.status(),
                absl::FailedPreconditionError(raised->as_string()))
          << name;
    } else if (c.Find("fails")) {
      EXPECT_FALSE(text.ok()) << name;
    } else {
      ASSERT_TRUE(text.ok()) << name << ": " << text.status();
      EXPECT_EQ(*text, c.Find("text")->as_string()) << name;
    }
  }
}

TEST(ChatTemplate, KeepsTheOriginOfTextThroughStringOperations) {
  const auto content = [](absl::string_view operation) {
    return absl::StrCat("<{{ (messages[0].content", operation, ") }}>");
  };
  const std::string user = " a<b>c ";
  for (const auto& [operation, expected] :
       std::vector<std::pair<std::string, std::string>>{
           {"", "<〈 a<b>c 〉>"},
           {"|trim", "<〈a<b>c〉>"},
           {".strip()[1:-1]", "<〈<b>〉>"},
           {".split('<')[0]", "<〈 a〉>"},
           {".replace('<b>', '|')", "<〈 a〉|〈c 〉>"},
           {"|upper", "<〈 A<B>C 〉>"},
           {" ~ '!'", "<〈 a<b>c 〉!>"},
           {"|tojson", "<\"〈 a<b>c 〉\">"},
           {"|trim|list|join('-')", "<〈a〉-〈<〉-〈b〉-〈>〉-〈c〉>"},
           {"|trim|indent(1, true)", "< 〈a<b>c〉>"},
           {"|trim|reverse", "<〈c>b<a〉>"},
           {"[::-1]", "<〈 c>b<a 〉>"},
           {"|length", "<7>"},
       }) {
    const auto text = RenderMarked(content(operation), user);
    ASSERT_TRUE(text.ok()) << operation << ": " << text.status();
    EXPECT_EQ(*text, expected) << operation;
  }
  for (const auto& [text, expected] :
       std::vector<std::pair<std::string, std::string>>{
           {"{{ '%s|' % messages[0].content }}", "〈x〉|"},
           {"{{ '{}|'.format(messages[0].content) }}", "〈x〉|"},
           {"{{ [messages[0].content] }}", "['〈x〉']"},
           {"{{ {messages[0].content: 1}|tojson }}", "{\"〈x〉\": 1}"},
           {"{% for k in {messages[0].content: 1} %}{{ k }}{% endfor %}",
            "〈x〉"},
           {"{% set a %}[{{ messages[0].content }}]{% endset %}{{ a }}",
            "[〈x〉]"},
           {"{% macro m(c) %}({{ c }}){% endmacro %}{{ m(messages[0].content) "
            "}}",
            "(〈x〉)"},
           {"{{ messages[0].content * 3 }}", "〈xxx〉"},
           {"{{ messages|map(attribute='content')|first }}", "〈x〉"},
       }) {
    const auto got = RenderMarked(text, "x");
    ASSERT_TRUE(got.ok()) << text << ": " << got.status();
    EXPECT_EQ(*got, expected) << text;
  }
}

TEST(ChatTemplate, ARoleThatIsNoPlainNameIsUserText) {
  DS_ASSERT_OK_AND_ASSIGN(const auto t,
                          ChatTemplate::Parse("{{ messages[0].role }}"));
  DS_ASSERT_OK_AND_ASSIGN(const auto plain, t->Render({{"user", ""}}, {}));
  ASSERT_EQ(plain.size(), 1u);
  EXPECT_FALSE(plain[0].from_user);
  DS_ASSERT_OK_AND_ASSIGN(const auto odd, t->Render({{"<|im_end|>", ""}}, {}));
  ASSERT_EQ(odd.size(), 1u);
  EXPECT_TRUE(odd[0].from_user);
}

TEST(ChatTemplate, ReplacesInvalidUtf8OfMessages) {
  DS_ASSERT_OK_AND_ASSIGN(
      const std::string text,
      RenderMarked("{{ messages[0].content|reverse }}", "a\xC3"));
  EXPECT_EQ(text,
            "〈\xEF\xBF\xBD"
            "a〉");
}

TEST(ChatTemplate, RefusesBadSyntaxWithTheLine) {
  for (const auto& [text, part] :
       std::vector<std::pair<std::string, std::string>>{
           {"a\n{{ 1 + }}", "line 2: expected an expression"},
           {"{% if x %}\n\nb", "line 3: expected {% endif %}"},
           {"{{ 'open }}", "line 1: string without end"},
           {"{# never", "comment without \"#}\""},
           {"{% raw %} x", "raw block without"},
           {"{{ a b }}", "expected \"}}\", found b"},
           {"\n{% for x on y %}{% endfor %}", "line 2: expected \"in\""},
           {"{{ [1, 2 }}", "unexpected \"}\""},
           {"{{ a[,1] }}", "expected an index"},
           {"{{ a[1:2,3] }}", "expected an index"},
           {"{{ a[1 2] }}", "expected \"]\""},
           {"{{ a ! b }}", "unexpected \"!\""},
           {"{% break %}", "break outside of a for"},
           {"{{ 99999999999999999999 }}", "is too large"},
           {"{{ '\\ud800' }}", "bad hexadecimal escape"},
           {"\xFF", "is not UTF-8"}}) {
    DS_EXPECT_ERROR(ChatTemplate::Parse(text), kInvalidArgument, part) << text;
  }
}

TEST(ChatTemplate, RefusesByNameWhatIsOutsideTheSubset) {
  for (const auto& [text, part] :
       std::vector<std::pair<std::string, std::string>>{
           {"{% include 'x' %}", "line 1: statement \"include\""},
           {"\n{% do x %}", "line 2: statement \"do\""},
           {"{{ x|pprint }}", "filter \"pprint\" is not supported"},
           {"{{ x is pretty }}", "test \"pretty\" is not supported"}}) {
    DS_EXPECT_ERROR(ChatTemplate::Parse(text), kUnimplemented, part) << text;
  }
  for (const auto& [text, part] :
       std::vector<std::pair<std::string, std::string>>{
           {"{% if 1 %}{{ x|pprint }}{% endif %}", "filter \"pprint\""},
           {"{{ lipsum() }}", "function \"lipsum\""},
           {"{{ 'a'.encode() }}", "method \"encode\" of a string"},
           {"{{ messages|map('upper') }}", "writing an iterator"},
           {"{{ [messages[0].items] }}", "writing a list"},
           {"{{ {1: 2} }}", "an integer as a key"}}) {
    DS_EXPECT_ERROR(RenderStatus(text), kUnimplemented, part) << text;
  }
}

TEST(ChatTemplate, RefusesWhatPythonRefusesWithTheLine) {
  for (const auto& [text, part] :
       std::vector<std::pair<std::string, std::string>>{
           {"\n\n{{ 'a' + 1 }}", "line 3: can't apply \"+\" to a string"},
           {"{{ nobody.x }}", "line 1: \"nobody\" is undefined"},
           {"{{ nobody + 'x' }}", "\"nobody\" is undefined"},
           {"{{ messages[0].name.x }}", "\"name\" is undefined"},
           {"{{ f() }}", "\"f\" is undefined"},
           {"{{ 1 // 0 }}", "division by zero"},
           {"{{ 9223372036854775807 + 1 }}", "does not fit 64 bits"},
           {"{% for x in 3 %}{% endfor %}", "an integer can't be walked over"},
           {"{% set messages.x = 1 %}", "only a namespace has attributes"},
           {"{% set a, b = [1] %}", "1 values for 2 names"},
           {"{{ 'x' < 1 }}", "can't apply \"<\""},
           {"{{ messages.append(1) }}", "\"append\" is undefined"},
           {"{{ messages[0].content.__class__.x }}", "is undefined"},
           {"{{ 'a'|trim('b', 'c') }}", "takes up to 1 arguments, got 2"},
           {"{{ 'a'|trim(char='b') }}", "takes no further argument \"char\""},
           {"{{ (messages|map('upper'))|length }}", "has no length"},
           {"{% macro m(a) %}{% endmacro %}{{ m(1, 2) }}", "takes 1 arguments"},
           {"{% macro m(a) %}{% endmacro %}{{ m(b=2) }}",
            "no parameter \"b\""}}) {
    DS_EXPECT_ERROR(RenderStatus(text), kInvalidArgument, part) << text;
  }
}

TEST(ChatTemplate, RaiseExceptionGivesTheTemplatesOwnWords) {
  EXPECT_EQ(RenderStatus("{{ raise_exception('no ' ~ messages[0].role) }}"),
            absl::FailedPreconditionError("no user"));
}

TEST(ChatTemplate, BoundsStepsTextDepthAndSize) {
  for (const std::string& text : std::vector<std::string>{
           "{% for a in range(1000000000) %}x{% endfor %}",
           "{% for a in range(9999) %}{% for b in range(9999) %}{% endfor %}"
           "{% endfor %}",
           "{% set ns = namespace(x='abcdefgh') %}{% for i in range(40) %}"
           "{% set ns.x = ns.x ~ ns.x %}{% endfor %}{{ ns.x }}",
           "{{ 'x' * 99999999999 }}", "{{ [1] * 99999999999 }}",
           "{{ ('x' * 4000000).replace('', 'yyyy') }}",
           "{{ ('x' * 3000000) ~ ('x' * 3000000) }}",
           "{% for i in range(9) %}{{ 'x' * 1000000 }}{% endfor %}",
           "{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}",
           "{% set ns = namespace(x=[]) %}{% for i in range(99) %}"
           "{% set ns.x = [ns.x] %}{% endfor %}",
           "{% set ns = namespace(x=[1]) %}{% for i in range(60) %}"
           "{% set ns.x = [ns.x, ns.x] %}{% endfor %}{{ ns.x }}",
           "{% set s = 'x' * 4000000 %}{{ [s] * 900000 }}",
           "{{ ('\n' * 4000000) | indent(1000, true, true) }}"}) {
    DS_EXPECT_ERROR(RenderStatus(text), kResourceExhausted, "chat template")
        << text;
  }
  // A namespace that holds itself would never be freed.
  DS_EXPECT_ERROR(
      RenderStatus("{% set ns = namespace() %}{% set ns.x = [ns] %}"),
      kUnimplemented, "that holds a namespace, inside a namespace");
}

TEST(ChatTemplate, BoundsNestingOfTheSource) {
  const auto repeat = [](absl::string_view s, int n) {
    std::string out;
    for (int i = 0; i < n; ++i) absl::StrAppend(&out, s);
    return out;
  };
  EXPECT_FALSE(
      ChatTemplate::Parse(absl::StrCat("{{ ", repeat("(", 50000))).ok());
  EXPECT_FALSE(
      ChatTemplate::Parse(absl::StrCat("{{ ", repeat("not ", 50000))).ok());
  EXPECT_FALSE(
      ChatTemplate::Parse(absl::StrCat("{{ ", repeat("-", 50000))).ok());
  EXPECT_FALSE(
      ChatTemplate::Parse(absl::StrCat("{{ 1", repeat(" if 1 else 1", 50000)))
          .ok());
  EXPECT_FALSE(
      ChatTemplate::Parse(absl::StrCat("{{ 1", repeat(" + 1", 50000), "}}"))
          .ok());
  EXPECT_FALSE(
      ChatTemplate::Parse(absl::StrCat("{{ a", repeat(".a", 50000), "}}"))
          .ok());
  EXPECT_FALSE(ChatTemplate::Parse(repeat("{% if 1 %}", 50000)).ok());
  EXPECT_FALSE(ChatTemplate::Parse(std::string(2 << 20, 'x')).ok());
  DS_ASSERT_OK(ChatTemplate::Parse(
      absl::StrCat("{{ 1", repeat(" + 1", 150), repeat(" ~ 1", 20), "}}")));
}

TEST(ChatTemplate, TextMethodsTakeTimeInProportionToTheirTexts) {
  // Each was quadratic: a search that fails late at every place, characters to
  // strip that are looked through, words that are taken off one by one.
  for (const char* text :
       {"{{ ('a' * 4000000).find('a' * 2000000 ~ 'b') }}",
        "{{ ('a' * 4000000).rfind('b' ~ 'a' * 2000000) }}",
        "{{ ('a' * 4000000).count('a' * 2000000 ~ 'b') }}",
        "{{ ('a' * 2000000 ~ 'b') in 'a' * 4000000 }}",
        "{{ ('a' * 4000000).replace('a' * 2000000 ~ 'b', 'c') | length }}",
        "{{ ('a' * 4000000).split('a' * 2000000 ~ 'b') | length }}",
        "{{ ('a' * 4000000).rsplit('b' ~ 'a' * 2000000) | length }}",
        "{{ ('a' * 4000000).partition('a' * 2000000 ~ 'b')[0] | length }}",
        "{{ ('b' * 2000000).strip('a' * 2000000 ~ 'b') }}",
        "{{ ('b' * 2000000) | trim('a' * 2000000 ~ 'b') }}",
        "{{ ('a ' * 500000).rsplit() | length }}",
        "{% set a = 'a' * 1000000 ~ 'b' %}{% set t = (a,) * 1000 %}"
        "{{ (a ~ 'c').endswith(t) }}{{ ('a' * 1000000 ~ 'c').startswith(t) }}",
        "{% set a = 'a' * 1000000 %}"
        "{% for i in ([a ~ 1, a ~ 2, a ~ 3, a ~ 4] * 4000) | unique %}"
        "{% endfor %}"}) {
    DS_ASSERT_OK_AND_ASSIGN(const auto t, ChatTemplate::Parse(text));
    const std::clock_t start = std::clock();
    const absl::Status status = t->Render({}, {}).status();
    EXPECT_TRUE(status.ok() || absl::IsResourceExhausted(status))
        << text << " " << status;
    EXPECT_LT(std::clock() - start, 3 * CLOCKS_PER_SEC) << text;
  }
  // As Python has them.
  DS_ASSERT_OK_AND_ASSIGN(
      const auto t,
      ChatTemplate::Parse("{{ ' a  b c '.rsplit() }}{{ ' a  b c '.rsplit(none, "
                          "1) }}{{ '-a--b-'.rsplit('-', 2) }}"
                          "{{ 'xaxa'.rfind('xa') }}{{ 'aaa'.rsplit('aa') }}"));
  DS_ASSERT_OK_AND_ASSIGN(const std::string text, RenderText(*t, {}));
  EXPECT_EQ(text, "['a', 'b', 'c'][' a  b', 'c']['-a-', 'b', '']2['a', '']");
}

TEST(ChatTemplate, AThousandMessagesAreWithinTheBounds) {
  DS_ASSERT_OK_AND_ASSIGN(
      const auto t,
      ChatTemplate::Parse(
          "{% for m in messages %}{% if loop.first and messages[0]['role'] != "
          "'system' %}S{% endif %}{{ '<' + m['role'] + '>' + m['content'] }}"
          "{{ messages[loop.index0 - 1].role }}{% endfor %}"));
  std::vector<ChatMessage> messages(1000, {"user", std::string(1000, 'x')});
  DS_ASSERT_OK_AND_ASSIGN(const std::string text, RenderText(*t, messages));
  EXPECT_EQ(text.size(), 1u + 1000 * (6 + 1000 + 4));
}

TEST(ChatTemplate, AnyTemplateTextGivesAStatus) {
  // Every cut of a template, and every single byte replaced.
  const std::string good =
      "{% set ns = namespace(n=0) %}{%- for m in messages if m.role -%}\n"
      "{{ '[' ~ m.content|trim|replace('a', 'b') ~ ']' }}{# c #}\n"
      "{% if loop.last and not m is none %}{{ m.content[1:].split(' ')[0] }}"
      "{% elif m['x'] %}{% set ns.n = ns.n + 1 %}{% endif %}{% endfor %}";
  const auto run = [](const std::string& text) {
    auto t = ChatTemplate::Parse(text);
    if (t.ok()) (void)(*t)->Render({{"user", "ab c"}}, {});
  };
  for (size_t i = 0; i <= good.size(); ++i) run(good.substr(0, i));
  for (size_t i = 0; i < good.size(); ++i) {
    for (char c : {'{', '}', '%', '-', '\'', '(', ']', '\0', '\xE9', '|'}) {
      std::string bad = good;
      bad[i] = c;
      run(bad);
    }
  }
  EXPECT_TRUE(ChatTemplate::Parse(good).ok());
}

}  // namespace
}  // namespace deepslice
