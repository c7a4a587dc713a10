// Package lazyregexp has regular expressions that are compiled at their first use. The programs have hundreds of
// them, and the agent starts a process for each look at a GPU. Compiled at the start of a process, they were half of
// the time that it took.
package lazyregexp
