// Package story is how the demos tell what they do: scenes with their time, each
// command as it is typed with what it prints, and at the end what was seen, which
// is what was checked. Nothing that it shows is made up: a command that fails ends
// the story.
package story
