package config

// advice is what to do about one of hcl's messages: the first entry of its summary
// whose detail occurs in the message.
type advice struct {
	detail  string
	text    string
	instead bool // of the message, which leads astray
}

var advices = map[string][]advice{
	// Texts.
	"Invalid multi-line string":                {{text: `This text has no closing quote on its line. Write the missing ". A text over several lines is written as <<EOT, its lines, and EOT.`, instead: true}},
	"Unterminated template string":             {{text: `Write the missing quote, or behind a heredoc its end mark alone on a line.`}},
	"Unclosed template interpolation sequence": {{text: `Write the missing "}" behind the expression, or $${ for the characters themselves.`}},
	"Invalid escape sequence":                  {{text: `Write \\ for a backslash; there are also \n, \t, \", \r and \uNNNN.`}},
	"Invalid character": {
		{detail: "not used within the language", text: "Take it out, or put the text it belongs to in double quotes."},
	},

	// Arguments and blocks.
	"Argument or block definition required": {
		{detail: "equals sign", text: `Write NAME = VALUE.`},
		{text: `Write NAME = VALUE, or TYPE "NAME" { ... }. A "}" here is one too many, and a comment starts with #.`},
	},
	"Missing newline after argument":         {{text: `Put a text, or a number with a unit, as "15s", in double quotes; compare with ==, join conditions with && or ||, and begin the next argument on a line of its own.`}},
	"Missing newline after block definition": {{text: `Begin what follows on a line of its own.`}},
	"Unexpected comma after argument":        {{text: `Take the comma out; it has no place in a number either.`}},
	"Invalid block definition": {
		{detail: `"=" indicates`, text: `Take the equals sign out.`},
		{detail: "must have block content", text: `Write { ... } behind it; if it is an argument, write NAME = VALUE.`},
		{text: `Write TYPE "NAME" {.`},
	},
	"Invalid single-argument block definition": {
		{detail: "must end with a closing brace", text: "Write each argument on a line of its own."},
		{detail: "include only one", text: "Begin a line behind the brace and behind each argument, and leave the commas out."},
		{detail: "Place the block's"},
	},
	"Argument definition required": {{detail: "If you meant"}, {text: "Write each argument and each block on a line of its own."}},
	"Unclosed configuration block": {{text: `Write the missing "}" where the block ends, or look for one that is missing in it.`}},
	"Attribute redefined":          {{text: "Delete one of the two."}},
	"Invalid argument name":        {{text: "Write it without quotes."}},

	// Expressions.
	"Invalid expression":                         {{text: `Write a value: a text in double quotes, a number, true, false, null, a list [...], an object { ... } or a reference as var.NAME.`}},
	"Missing expression":                         {{text: `Write a value: a text in double quotes, a number, true, false, null, a list [...], an object { ... } or a reference as var.NAME.`}},
	"Missing item separator":                     {{text: `Write the missing comma, or the missing "]" behind the last element.`}},
	"Missing attribute separator":                {{text: `Write the missing comma, or the missing "}" behind the last element.`}},
	"Missing attribute value":                    {{text: "Write NAME = VALUE."}},
	"Missing key/value separator":                {{text: "Write NAME = VALUE."}},
	"Missing argument separator":                 {{text: `Write the missing comma, or the missing ")" behind the last argument.`}},
	"Unterminated function call":                 {{text: `Write the missing ")".`}},
	"Unbalanced parentheses":                     {{text: `Write the missing ")".`}},
	"Unterminated tuple constructor expression":  {{text: `Write the missing "]".`}},
	"Unterminated object constructor expression": {{text: `Write the missing "}".`}},
	"Missing false expression in conditional":    {{text: "Write CONDITION ? VALUE : VALUE."}},
	"Invalid 'for' expression":                   {{text: "Write [for v in LIST : VALUE], or { for k, v in MAP : KEY => VALUE }."}},
	"Invalid attribute name":                     {{text: `Write a name behind the dot, or ["KEY"] in place of it.`}},
	"Invalid template control keyword":           {{detail: "Did you mean"}, {text: "There is if, else, endif, for and endfor."}},
	"Unexpected endif directive":                 {{text: "Each endif needs an if in front of it, and each endfor a for."}},
	"Unexpected endfor directive":                {{text: "Each endif needs an if in front of it, and each endfor a for."}},

	// Values.
	"Call to unknown function":                 {{detail: "Did you mean"}, {text: `"locktree schema" lists the functions there are.`}},
	"Attempt to get attribute from null value": {{text: "Give it a value, or write try(..., DEFAULT) where it may be null."}},
	"Attempt to index null value":              {{text: "Give it a value, or write try(..., DEFAULT) where it may be null."}},
	"Invalid operand": {
		{detail: "number is required", text: `Write two texts together as "${a}${b}".`},
		{detail: "bool", text: "Compare something, as in var.x == 1."},
	},
	"Operation failed": {{detail: "must not be null", text: "Give it a value, or write coalesce(VALUE, DEFAULT) where it may be null."}},
	"Invalid template interpolation value": {
		{detail: "null", text: "Give it a value, or write coalesce(VALUE, DEFAULT) where it may be null."},
		{text: `Write join(", ", VALUE) for a list of texts, or jsonencode(VALUE).`},
	},
	"Incorrect condition type":              {{text: `Compare something, as in var.x == "a" ? 1 : 2.`}},
	"Null condition":                        {{text: "Write coalesce(VALUE, false) where it may be null."}},
	"Condition is null":                     {{text: "Write coalesce(VALUE, false) where it may be null."}},
	"Invalid 'for' condition":               {{text: `Compare something, as in if v != "a".`}},
	"Inconsistent conditional result types": {{text: "Give both the same type; tostring(...), tolist(...) and their like convert."}},
	"Iteration over non-iterable value":     {{text: "Give it a list, a set, a map or an object."}},
	"Iteration over null value":             {{text: "Write VALUE == null ? [] : VALUE where it may be null."}},
	"Splat of null value":                   {{text: "Write VALUE == null ? [] : VALUE where it may be null."}},
	"Null value as key":                     {{text: "Leave the element out where its key is null."}},
	"Invalid expanding argument value":      {{text: "Write [VALUE]..., or leave the dots out."}},
	"Function calls not allowed":            {{text: "Compute it in a local, and refer to that."}},
	"Unsupported attribute": {
		{detail: "Did you mean"},
		{text: "Correct the name, or write try(..., DEFAULT) where it may be missing."},
	},
	"Invalid index":              {{text: "Correct the key, or write try(..., DEFAULT) where it may be missing."}},
	"Invalid value for variable": {{detail: "does not fit its type", text: "Change the value, or the type of the variable."}},
	"Wrong type": {
		{detail: ": a number is required", text: "Write a number without quotes, as 3."},
		{detail: ": number required", text: "Write a number, or take one of its elements."},
		{detail: ": bool required", text: "Write true or false."},
		{detail: ": a bool is required", text: `Write true or false, or compare something, as in var.x == "a".`},
		{detail: ": string required", text: `Write a text, or take one of its elements.`},
	},
}
