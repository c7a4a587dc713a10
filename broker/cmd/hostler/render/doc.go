// Package render writes the output for operators: tables and pages for people, JSON and YAML for
// programs. Its main type is Page.
//
// # Rules
//
//   - Everything shown may have come from a node that a tenant had root on. In
//     tables each control, format and separating character is replaced by its
//     escape, and every cell is bounded; in JSON and YAML the same characters
//     are written as \u escapes, which loses nothing.
//   - A table fits the terminal: columns are left out by their rank (Column), text
//     is broken over lines, and a line below the table says so. In a pipe a table
//     is written whole.
//   - Colour is added after the widths are known, on a terminal only, and says
//     nothing that the words do not say.
//   - A page is written in one piece, so that a failure leaves no half of it.
package render
