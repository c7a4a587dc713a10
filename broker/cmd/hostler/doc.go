// Command hostler is the operator's command line: every task of an operator, over the operator API.
// Its main type is app.
//
// # Manners
//
//   - Nouns, then verbs. What was asked for goes to stdout; progress, notes,
//     questions and errors go to stderr.
//   - An error is one line, "error: CODE: what, and what to do", and decides
//     the exit status in one place (exit.go).
//   - On a terminal a table fits: package render shortens node ids and leaves out columns by their
//     rank, which the table declares with the column. What holds a node or a run back is kept.
//     In a pipe, and with -o wide, nothing is left out.
//   - -o json and -o yaml print what the API answered, under its field names.
//   - A command that destroys something asks first, and refuses where nobody
//     can be asked, unless --yes was said.
//   - A secret is read from a file, stdin or the environment. On the command
//     line it is for trials, and warned about.
//   - Whatever a node reported is untrusted text: it reaches the terminal
//     through package render only, and what a terminal there shows through
//     broker/escape.
//
// # Adding a command
//
// One function that returns it, in the file of its noun, with an Example; one line in the list of
// its parent; go test -update, and read the golden's diff. docs/contribute/first-changes.md says how
// a column is added to a table.
package main
