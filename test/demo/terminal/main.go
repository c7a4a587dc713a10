package main

import (
	"github.com/hostler/hostler/test/demo/play"
	"github.com/hostler/hostler/test/qemu"
)

func main() {
	play.Main("demo-terminal",
		"On-call people need a shell on a machine that listens on nothing, and a record that cannot be lost. A QEMU guest is the machine.",
		func(p *play.Play, image *qemu.Image) ([]play.Scene, []string) {
			d := &demo{Play: p, image: image}
			scenes := []play.Scene{
				{Title: "A broker, and a node with a tenant", Play: d.node},
				{Title: "A terminal on it", Play: d.open},
				{Title: "Its agent is restarted meanwhile", Play: d.restart},
				{Title: "Who may not", Play: d.refused},
				{Title: "Its end, and its recording", Play: d.played},
			}
			return scenes, []string{
				"docs/how-to/terminal.md", "how a session works, its keys, and what may end it",
				"hostler site terminal-policy show", "who may open one, as whom, and for how long",
			}
		})
}
