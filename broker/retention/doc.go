// Package retention deletes old rows of the tables that grow with time and not with the fleet, once
// no rule, no person and no proof needs the rows. Its main type is Keeper.
// docs/reference/retention.md says how long each table is kept and how large it becomes. Events,
// recordings and diagnostics have keepers of their own, because sites decide about them.
package retention
