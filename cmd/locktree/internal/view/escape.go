package view

import (
	"html"
	"net/url"
	"strings"
)

// What a server or the author of a pull request wrote must not become markup: it is made text before it stands in Markdown or in the
// HTML that is part of it.

// markup are the characters that mean something in Markdown or HTML, each with its entity.
var markup = []string{"&", "&amp;", "<", "&lt;", ">", "&gt;", `"`, "&quot;", "*", "&ast;", "_", "&lowbar;", "`", "&grave;",
	"[", "&lbrack;", "]", "&rbrack;", `\`, "&bsol;", "|", "&vert;", "~", "&#126;", "$", "&dollar;"}

var (
	inPre  = strings.NewReplacer(markup[:6]...)
	inCode = strings.NewReplacer(markup...)
	// GitHub looks for @names and #numbers in what it renders, except in code.
	inProse = strings.NewReplacer(append(markup, "@", "<code>@</code>", "#", "<code>#</code>")...)
)

// prose is one line of text for both.
func prose(s string) string { return inProse.Replace(clean(strings.Join(strings.Fields(s), " "))) }

// tag is a name as code, for both.
func tag(s string) string { return "<code>" + inCode.Replace(clean(s)) + "</code>" }

// code is a name as code, in Markdown only, where most names read better between backticks.
func code(s string) string {
	if s = clean(s); s == "" || strings.ContainsAny(s, "`|\\") || strings.TrimSpace(s) != s {
		return tag(s)
	}
	return "`" + s + "`"
}

// pre is a text of several lines, which is rendered as it is.
func pre(s string) string {
	return "<pre>\n" + inPre.Replace(strings.Trim(CleanLines(s), "\n")) + "\n</pre>"
}

// collapsed is a text that a click shows.
func collapsed(title, text string) string {
	return "<details><summary>" + title + "</summary>\n\n" + pre(text) + "\n\n</details>\n\n"
}

// link is a link to a page, or code where the text is none: a server may hold anything.
func link(text, to string) string {
	if u, err := url.Parse(to); err != nil || u.Scheme != "https" && u.Scheme != "http" {
		return code(to)
	}
	return `<a href="` + strings.ReplaceAll(html.EscapeString(clean(to)), "|", "%7C") + `">` + text + "</a>"
}
