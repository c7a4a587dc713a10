package profiles

import (
	"encoding/json"
	"fmt"
	"regexp"
	"regexp/syntax"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"github.com/hostler/hostler/taskcatalog"
	"github.com/hostler/hostler/taskcatalog/lazyregexp"
)

// The types of an argument.
const (
	ArgString  = "string"
	ArgInteger = "integer"
	ArgBoolean = "boolean"
	ArgList    = "list" // of strings
)

// Bounds of a step's arguments.
const (
	maxArgBytes = 256
	maxArgItems = 64
)

// Arg is one argument that a step may add, and its form in argv. A missing argument adds nothing.
type Arg struct {
	Name string `json:"name" jsonschema:"pattern=^[a-z][a-z0-9_]{0\\,31}$"`
	Type string `json:"type" jsonschema:"enum=string,enum=integer,enum=boolean,enum=list"`
	// Pattern is a regular expression for a whole string, or for each item of a list. It must match
	// neither the empty string nor a string that begins with '-'.
	Pattern  string `json:"pattern,omitempty" jsonschema:"maxLength=256"`
	Minimum  *int64 `json:"minimum,omitempty"` // of an integer, 0 or more
	Maximum  *int64 `json:"maximum,omitempty"`
	MaxItems int    `json:"max_items,omitempty" jsonschema:"minimum=0,maximum=64"` // of a list
	// Flag precedes the value: as a separate argument, or in the same argument if Flag ends with
	// '='. A true boolean consists of Flag only.
	Flag string `json:"flag,omitempty" jsonschema:"pattern=^--?[A-Za-z0-9][A-Za-z0-9_-]*=?$,maxLength=64"`
	// Join joins the items of a list to one value, with this character between them. Without Join
	// each item is a value, with its own flag.
	Join     string `json:"join,omitempty" jsonschema:"pattern=^[\\,:;+]$"`
	Required bool   `json:"required,omitempty"`
}

var (
	argName = lazyregexp.New(`^[a-z][a-z0-9_]{0,31}$`)
	argFlag = lazyregexp.New(`^--?[A-Za-z0-9][A-Za-z0-9_-]{0,60}=?$`)
)

// check returns the fault of a, if any.
func (a *Arg) check() (taskcatalog.Code, string) {
	bad := func(format string, args ...any) (taskcatalog.Code, string) {
		return CodeBadArg, "argument " + quote(a.Name) + ": " + fmt.Sprintf(format, args...)
	}
	text := a.Type == ArgString || a.Type == ArgList
	switch {
	case !argName.MatchString(a.Name):
		return bad("it is no name (a-z, 0-9, '_', 32 at most)")
	case a.Flag != "" && !argFlag.MatchString(a.Flag):
		return bad("%s is no flag", quote(a.Flag))
	case !slices.Contains([]string{ArgString, ArgInteger, ArgBoolean, ArgList}, a.Type):
		return bad("%s is no type (string, integer, boolean, list)", quote(a.Type))
	case !text && a.Pattern != "":
		return bad("only a string or a list has a pattern")
	case a.Type != ArgInteger && (a.Minimum != nil || a.Maximum != nil):
		return bad("only an integer has a minimum and a maximum")
	case a.Type != ArgList && (a.Join != "" || a.MaxItems != 0):
		return bad("only a list has join and max_items")
	case a.Type == ArgBoolean && (a.Flag == "" || strings.HasSuffix(a.Flag, "=")):
		return bad("a boolean needs a flag without '='")
	case a.Type == ArgList && (a.MaxItems < 1 || a.MaxItems > maxArgItems):
		return bad("a list needs max_items between 1 and %d", maxArgItems)
	case a.Join != "" && !slices.Contains([]string{",", ":", ";", "+"}, a.Join):
		return bad("join is one of , : ; +")
	}
	if a.Type == ArgInteger {
		switch {
		case a.Minimum == nil || a.Maximum == nil || *a.Minimum > *a.Maximum:
			return bad("an integer needs minimum and maximum, in this order")
		case *a.Minimum < 0:
			return CodeMayBeOption, fmt.Sprintf("argument %s may be negative, which reads as an option (minimum: 0)", quote(a.Name))
		}
	}
	if !text {
		return "", ""
	}
	if a.Pattern == "" || len(a.Pattern) > maxArgBytes {
		return CodeMayBeOption, fmt.Sprintf("argument %s needs a pattern of at most %d bytes, which keeps '-' from its beginning",
			quote(a.Name), maxArgBytes)
	}
	dash, empty, err := begins(a.Pattern)
	switch {
	case err != nil:
		return bad("its pattern is no regular expression: %v", err)
	case dash:
		return CodeMayBeOption, fmt.Sprintf("argument %s may begin with '-': its pattern %s allows it", quote(a.Name), quote(a.Pattern))
	case empty:
		return CodeMayBeOption, fmt.Sprintf("argument %s may be empty: its pattern %s allows it", quote(a.Name), quote(a.Pattern))
	}
	return "", ""
}

// begins reports whether a string that matches the whole pattern may begin with '-', and whether it
// may be empty. begins follows the compiled program up to the first character. If begins cannot
// tell (\b, ^), it reports that the string may.
func begins(pattern string) (dash, empty bool, err error) {
	parsed, err := syntax.Parse(pattern, syntax.Perl)
	if err != nil {
		return false, false, err
	}
	prog, err := syntax.Compile(parsed.Simplify())
	if err != nil {
		return false, false, err
	}
	seen := make([]bool, len(prog.Inst))
	var walk func(pc uint32)
	walk = func(pc uint32) {
		if seen[pc] {
			return
		}
		seen[pc] = true
		switch in := &prog.Inst[pc]; in.Op {
		case syntax.InstAlt, syntax.InstAltMatch:
			walk(in.Out)
			walk(in.Arg)
		case syntax.InstCapture, syntax.InstNop, syntax.InstEmptyWidth:
			walk(in.Out)
		case syntax.InstMatch:
			empty = true
		case syntax.InstRuneAny, syntax.InstRuneAnyNotNL:
			dash = true
		case syntax.InstRune, syntax.InstRune1:
			dash = dash || in.MatchRune('-')
		}
	}
	walk(uint32(prog.Start))
	return dash, empty, nil
}

// CodeBadArgs is the code of arguments that a command profile does not accept.
const CodeBadArgs taskcatalog.Code = "bad_step_args"

// Argv returns the command line with a step's arguments, the executable first. Code bad_step_args:
// an argument breaks the schema, is unknown or is missing.
func (c *CommandProfile) Argv(args map[string]any) ([]string, error) {
	argv := append([]string{c.Command}, c.BaseArgs...)
	known := map[string]bool{}
	for i := range c.ArgSchema {
		a := &c.ArgSchema[i]
		known[a.Name] = true
		v, given := args[a.Name]
		if !given {
			if a.Required {
				return nil, taskcatalog.Errorf(CodeBadArgs, "cannot run %s: the argument %s is missing", c.ID, a.Name)
			}
			continue
		}
		values, err := a.values(v)
		if err != nil {
			return nil, taskcatalog.Errorf(CodeBadArgs, "cannot run %s: argument %s: %v", c.ID, a.Name, err)
		}
		argv = append(argv, values...)
	}
	for name := range args {
		if !known[name] {
			return nil, taskcatalog.Errorf(CodeBadArgs, "cannot run %s: it takes no argument %s", c.ID, quote(name))
		}
	}
	return argv, nil
}

// Fits returns why a value is none of the argument's; nil: it is one.
func (a *Arg) Fits(v any) error {
	_, err := a.values(v)
	return err
}

// values returns one argument's part of argv.
func (a *Arg) values(v any) ([]string, error) {
	switch a.Type {
	case ArgBoolean:
		on, ok := v.(bool)
		if !ok {
			return nil, fmt.Errorf("it is no boolean")
		}
		if !on {
			return nil, nil
		}
		return []string{a.Flag}, nil
	case ArgInteger:
		n, ok := integral(v)
		if !ok || n < *a.Minimum || n > *a.Maximum {
			return nil, fmt.Errorf("it is no whole number from %d to %d", *a.Minimum, *a.Maximum)
		}
		return a.flagged(strconv.FormatInt(n, 10)), nil
	case ArgString:
		s, ok := v.(string)
		if !ok {
			return nil, fmt.Errorf("it is no text")
		}
		return a.flagged(s), a.fits(s)
	}
	items, ok := texts(v)
	if !ok || len(items) == 0 || len(items) > a.MaxItems {
		return nil, fmt.Errorf("it is no list of 1 to %d texts", a.MaxItems)
	}
	var all []string
	for _, s := range items {
		if err := a.fits(s); err != nil {
			return nil, err
		}
		if a.Join != "" && strings.Contains(s, a.Join) {
			return nil, fmt.Errorf("%s holds the character that joins the list", quote(s))
		}
		all = append(all, a.flagged(s)...)
	}
	if a.Join != "" {
		return a.flagged(strings.Join(items, a.Join)), nil
	}
	return all, nil
}

func (a *Arg) flagged(value string) []string {
	switch {
	case a.Flag == "":
		return []string{value}
	case strings.HasSuffix(a.Flag, "="):
		return []string{a.Flag + value}
	}
	return []string{a.Flag, value}
}

// fits checks a string against the whole pattern, and repeats the checks of begins on the string
// itself, which cost nothing.
func (a *Arg) fits(s string) error {
	re, err := regexp.Compile(`\A(?:` + a.Pattern + `)\z`)
	switch {
	case err != nil:
		return err
	case s == "" || s[0] == '-' || len(s) > maxArgBytes || strings.ContainsFunc(s, unicode.IsControl) || !re.MatchString(s):
		return fmt.Errorf("%s does not fit its pattern", quote(s))
	}
	return nil
}

func integral(v any) (int64, bool) {
	switch n := v.(type) {
	case int:
		return int64(n), true
	case int64:
		return n, true
	case float64: // of JSON
		return int64(n), n == float64(int64(n))
	case json.Number:
		i, err := n.Int64()
		return i, err == nil
	}
	return 0, false
}

func texts(v any) ([]string, bool) {
	switch l := v.(type) {
	case []string:
		return l, true
	case []any: // of JSON
		all := make([]string, len(l))
		for i, v := range l {
			s, ok := v.(string)
			if !ok {
				return nil, false
			}
			all[i] = s
		}
		return all, true
	}
	return nil, false
}
