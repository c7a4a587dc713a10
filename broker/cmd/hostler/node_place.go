package main

import (
	"context"
	"fmt"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/api"
	"github.com/hostler/hostler/broker/cmd/hostler/render"
)

func nodePlaceCommand(a *app) *cobra.Command {
	var p api.Place
	var file, reason string
	c := &cobra.Command{
		Use: "place NODE", Short: "say where a node stands: zone, room, row, rack, unit, failure domain",
		Long: `Say where a node stands. Parts that are not given stay; an empty word, or unit 0,
removes a part. A word is of a-z, 0-9, '.', '_' and '-', and is unique in its site: two
racks with the same word count as one rack. Nodes that fail together, such as those of
one power feed, have the same failure domain.

With --from the places come from a CSV file, for up to 1000 nodes: all are changed, or
none. Its first line names the columns, in any order: node, and any of zone, room, row,
rack, unit and domain. An empty cell leaves the part as it is.

Selectors name the parts: hostler node list --nodes rack=c07.`,
		Example: "  hostler node place gpu-07 --rack c07 --unit 12 --domain feed-a\n  hostler node place gpu-07 --zone=\n" +
			"  hostler node place --from places.csv --reason 'hall 2 is in use'",
		Args: func(c *cobra.Command, args []string) error {
			if file != "" {
				return exactly()(c, args)
			}
			return exactly("NODE")(c, args)
		},
		RunE: func(c *cobra.Command, args []string) error {
			change, given := placeChange(c, &p)
			if file != "" {
				if given {
					return usage("%s takes the places from the file alone (leave --zone, --rack and the others out)", c.CommandPath())
				}
				return a.placeFrom(c.Context(), file, reason)
			}
			if !given {
				return usage("%s needs a part, such as --rack c07, or --from FILE", c.CommandPath())
			}
			remote, err := a.connect()
			if err != nil {
				return err
			}
			n, err := remote.PlaceNode(c.Context(), args[0], api.NodePlaceChange{PlaceChange: change, Reason: reason})
			if err != nil {
				return err
			}
			return a.show(n, []string{n.ID}, func(pg *render.Page) {
				pg.Fields(append([]string{"node", n.Hostname + " (" + n.ID + ")", "site", n.Site}, placeFields(n)...)...)
			})
		},
	}
	placeFlags(c, &p)
	c.Flags().StringVar(&file, "from", "", "`FILE`.csv with the places of many nodes, or - for stdin")
	reasonFlag(c, &reason)
	return c
}

// placeFlags are the flags with which a command names a place.
func placeFlags(c *cobra.Command, p *api.Place) {
	c.Flags().StringVar(&p.Zone, "zone", "", "availability zone of the machine")
	c.Flags().StringVar(&p.Room, "room", "", "room of the machine")
	c.Flags().StringVar(&p.Row, "row", "", "row of racks in which the machine stands")
	c.Flags().StringVar(&p.Rack, "rack", "", "rack of the machine")
	c.Flags().IntVar(&p.Unit, "unit", 0, "lowest rack unit of the machine, from 1")
	c.Flags().StringVar(&p.Domain, "domain", "", "failure domain of the machine")
}

// placeChange is the change by the flags that were given.
func placeChange(c *cobra.Command, p *api.Place) (change api.PlaceChange, given bool) {
	change = api.PlaceChange{Zone: &p.Zone, Room: &p.Room, Row: &p.Row, Rack: &p.Rack, Unit: &p.Unit, Domain: &p.Domain}
	for name, part := range map[string]**string{
		"zone": &change.Zone, "room": &change.Room, "row": &change.Row, "rack": &change.Rack, "domain": &change.Domain,
	} {
		if c.Flags().Changed(name) {
			given = true
		} else {
			*part = nil
		}
	}
	if c.Flags().Changed("unit") {
		return change, true
	}
	change.Unit = nil
	return change, given
}

func placeFields(n *api.Node) []string {
	return []string{
		"zone", n.Zone, "room", n.Room, "row", n.Row, "rack", n.Rack, "unit", count(int64(n.Unit)), "domain", n.Domain,
	}
}

// placeColumns are the columns of a CSV file that name a machine's place.
var placeColumns = append([]string{"unit"}, broker.PlaceLevels...)

// placeOf reads the place of a CSV row.
func placeOf(row map[string]string) (p api.Place, err error) {
	p = api.Place{Zone: row["zone"], Room: row["room"], Row: row["row"], Rack: row["rack"], Domain: row["domain"]}
	if row["unit"] != "" {
		if p.Unit, err = strconv.Atoi(row["unit"]); err != nil || p.Unit == 0 {
			return p, fmt.Errorf("cannot use unit %q: a rack has the units 1 to %d", row["unit"], broker.MaxRackUnit)
		}
	}
	if err := broker.NodePlace(p).Check(); err != nil {
		return p, fmt.Errorf("%s", broker.AsError(err).Message)
	}
	return p, nil
}

// placeFrom changes the places of the nodes in a CSV file: all, or none.
func (a *app) placeFrom(ctx context.Context, file, reason string) error {
	raw, err := a.readUpTo(maxMachinesFile, file)
	if err != nil {
		return err
	}
	list, err := nodePlaces(file, raw)
	if err != nil {
		return err
	}
	remote, err := a.connect()
	if err != nil {
		return err
	}
	r, err := remote.PlaceNodes(ctx, api.NodePlaces{Items: list, Reason: reason})
	if err != nil {
		return err
	}
	return a.show(r, nil, func(p *render.Page) { p.Line(fmt.Sprintf("%d changed, %d as they were", r.Changed, r.Unchanged)) })
}

// nodePlaces reads the CSV file of hostler node place.
func nodePlaces(name string, raw []byte) ([]api.NodePlace, error) {
	const code = "place_invalid"
	rows, err := csvRows(name, code, raw, []string{"node"}, placeColumns)
	if err != nil {
		return nil, err
	}
	lines := map[string]string{}
	list := []api.NodePlace{}
	for _, row := range rows {
		p, err := placeOf(row)
		if err != nil {
			return nil, broker.Errorf(broker.Invalid, code, "cannot use %s: line %s: %v", name, row[lineColumn], err)
		}
		if before := lines[row["node"]]; before != "" {
			return nil, broker.Errorf(broker.Invalid, code, "cannot use %s: lines %s and %s name the same node", name, before, row[lineColumn])
		}
		lines[row["node"]] = row[lineColumn]
		line, _ := strconv.Atoi(row[lineColumn])
		list = append(list, api.NodePlace{Node: row["node"], Line: line, PlaceChange: partsGiven(p)})
	}
	if len(list) == 0 || len(list) > maxPlaces {
		return nil, broker.Errorf(broker.Invalid, code, "cannot use %s: it names %d nodes, and a file names 1 to %d", name, len(list), maxPlaces)
	}
	return list, nil
}

// maxPlaces is how many places the API takes at once.
const maxPlaces = 1000

// partsGiven is the change that sets the known parts of a place.
func partsGiven(p api.Place) (c api.PlaceChange) {
	for _, part := range []struct {
		word string
		to   **string
	}{{p.Zone, &c.Zone}, {p.Room, &c.Room}, {p.Row, &c.Row}, {p.Rack, &c.Rack}, {p.Domain, &c.Domain}} {
		if part.word != "" {
			*part.to = &part.word
		}
	}
	if p.Unit != 0 {
		c.Unit = &p.Unit
	}
	return c
}
