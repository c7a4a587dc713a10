// Package retention removes what no rule, no person and no proof needs any more, of what
// grows with time and not with the fleet. docs/reference/retention.md says how long each table is
// kept, and how large it becomes; events, recordings and diagnostics have keepers of
// their own, as sites have a say in those.
package retention
