// Package story prints the demos: scenes with their time, each command as typed with its output,
// and at the end the list of checked results. Story is its main type. All output is real: a command
// that fails ends the story.
package story
