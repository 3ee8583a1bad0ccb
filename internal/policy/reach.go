package policy

import (
	"regexp"
	"slices"
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

// What reaches a service runs unconfined, with a network. So nothing that other commands read may get to it: neither as
// words, nor as input, nor by whether it runs at all.

// tellsNothing reports whether a command says no more than what is written in it.
func (w *walker) tellsNothing(c *call) bool {
	return !w.hasInput() && !w.r.chosen && !slices.ContainsFunc(c.args, func(a string) bool { return !certain(a) })
}

// choosing notes that what follows depends on what ran since, unless that is known to depend on nothing.
func (w *walker) choosing(since int, conds ...*syntax.Stmt) {
	for _, c := range w.r.cmds[since:] {
		w.r.chosen = w.r.chosen || !c.plain && !c.reaches && !c.constant()
	}
	for _, cond := range conds {
		if list, ok := cond.Cmd.(*syntax.BinaryCmd); ok && list.Op != syntax.Pipe && list.Op != syntax.PipeAll {
			cond = list.Y // what is before was looked at on the way
		}
		if w.r.chosen || !w.left.take(extent(cond)) {
			w.r.chosen = true
			return
		}
		syntax.Walk(cond, func(n syntax.Node) bool {
			switch n.(type) {
			case *syntax.TestClause, *syntax.ArithmCmd, *syntax.LetClause:
				w.r.chosen = true
			}
			return !w.r.chosen
		})
	}
}

// constants are the commands whose success says nothing of what is in files.
var constants = []string{"cd", "echo", "true", "false", ":", "pwd", "sleep", "date"}

// constant reports whether a command succeeds or fails whatever is in files. Words that are computed may make it fail.
func (c command) constant() bool {
	return slices.Contains(constants, c.words[0]) && !slices.ContainsFunc(c.words, func(a string) bool { return !certain(a) })
}

// kubeKinds are the resources of kubectl that hold no secrets, by all their names. Capitals do not count.
var kubeKinds = strings.Fields(`all
	pod pods po node nodes no namespace namespaces ns service services svc deployment deployments deploy replicaset replicasets rs
	statefulset statefulsets sts daemonset daemonsets ds job jobs cronjob cronjobs cj ingress ingresses ing ingressclass ingressclasses
	event events ev endpoints ep endpointslice endpointslices configmap configmaps cm persistentvolume persistentvolumes pv
	persistentvolumeclaim persistentvolumeclaims pvc storageclass storageclasses sc serviceaccount serviceaccounts sa role roles rolebinding
	rolebindings clusterrole clusterroles clusterrolebinding clusterrolebindings networkpolicy networkpolicies netpol
	horizontalpodautoscaler horizontalpodautoscalers hpa poddisruptionbudget poddisruptionbudgets pdb resourcequota resourcequotas quota
	limitrange limitranges limits priorityclass priorityclasses pc replicationcontroller replicationcontrollers rc
	customresourcedefinition customresourcedefinitions crd crds lease leases componentstatus componentstatuses cs
	certificate certificates certificaterequest certificaterequests issuer issuers clusterissuer clusterissuers gateway gateways httproute httproutes
	virtualservice virtualservices destinationrule destinationrules serviceentry serviceentries ingressroute ingressroutes application applications
	applicationset applicationsets kustomization kustomizations helmrelease helmreleases gitrepository gitrepositories helmrepository helmrepositories
	servicemonitor servicemonitors podmonitor podmonitors prometheusrule prometheusrules rollout rollouts workflow workflows cronworkflow cronworkflows
	scaledobject scaledobjects nodepool nodepools nodeclaim nodeclaims machine machines machineset machinesets machinedeployment machinedeployments
	cluster clusters volumesnapshot volumesnapshots volumesnapshotclass volumesnapshotclasses runtimeclass runtimeclasses externalsecret externalsecrets
	controllerrevision controllerrevisions podtemplate podtemplates verticalpodautoscaler verticalpodautoscalers vpa ciliumnetworkpolicy`)

// kubeKind is a list of kinds of resources, each perhaps with its group, or one with a name.
func kubeKind(_ *matching, ws []string) bool {
	if !certain(ws[0]) {
		return false
	}
	for _, one := range strings.Split(ws[0], ",") {
		one, name, _ := strings.Cut(one, "/")
		one, _, _ = strings.Cut(one, ".")
		if !slices.Contains(kubeKinds, strings.ToLower(one)) || !plainText.MatchString(name) {
			return false
		}
	}
	return true
}

// kubeSecret reports whether secrets are among the resources that a word names.
func kubeSecret(word string) bool {
	return slices.ContainsFunc(strings.Split(strings.ToLower(word), ","), func(one string) bool {
		one, _, _ = strings.Cut(one, "/")
		one, _, _ = strings.Cut(one, ".")
		return one == "secret" || one == "secrets"
	})
}

// kubeName is the name of a resource, perhaps with its kind.
func kubeName(m *matching, ws []string) bool {
	if strings.Contains(ws[0], "/") {
		return kubeKind(m, ws)
	}
	return certain(ws[0]) && plainText.MatchString(ws[0])
}

// kubeOutput is how kubectl prints: not by a file, and without naming what holds secrets.
func kubeOutput(_ *matching, ws []string) bool {
	return certain(ws[0]) && noneOf("secret", "file", "..", "://")(strings.ToLower(ws[0])) && !strings.HasPrefix(ws[0], "/")
}

// jqToken is a word of jq: what is none is not let through. There is no $ and no comment among them.
var jqToken = regexp.MustCompile(`^(?:\s+|\.\.|\.[A-Za-z_]\w*|[.\[\](){}|,:;?]|[=!<>]=|[-+*/%<>]|//|\d+(?:\.\d+)?|@[a-z]+\d*|[A-Za-z_]\w*)`)

// jqWords are the functions of jq that work on what they are given.
var jqWords = strings.Fields(`select map length keys values first last sort sort_by group_by unique unique_by reverse join split test startswith endswith
	contains inside index any all add min max min_by max_by flatten range floor tostring tonumber type ascii_downcase ascii_upcase ltrimstr rtrimstr
	to_entries from_entries with_entries has in not and or null true false empty if then elif else end limit recurse fromdate todate date now
	strptime strftime sub gsub match capture tojson fromjson paths del path`)

// jqPlain reports whether a program of jq only picks from what it is given.
func jqPlain(prog string) bool {
	before := ""
	for prog != "" {
		if strings.HasPrefix(prog, `"`) {
			rest, ok := jqString(prog)
			if !ok {
				return false
			}
			prog, before = rest, `"`
			continue
		}
		token := jqToken.FindString(prog)
		if token == "" {
			return false
		}
		prog = prog[len(token):]
		if isName(token) && !slices.Contains(jqWords, token) && !jqKey(before, token, prog) {
			return false
		}
		if strings.TrimSpace(token) != "" {
			before = token
		}
	}
	return true
}

// jqKey reports whether a name is a key of an object: {number, title}.
func jqKey(before, name, after string) bool {
	after = strings.TrimSpace(after)
	return name != "env" && (before == "{" || before == ",") && after != "" && strings.Contains(",}:", after[:1]) && !strings.HasPrefix(name, "input")
}

// jqString takes a string, with the programs in it, from the front.
func jqString(s string) (rest string, ok bool) {
	for i := 1; i < len(s); i++ {
		switch {
		case s[i] == '"':
			return s[i+1:], true
		case s[i] == '\\' && i+1 < len(s) && s[i+1] == '(':
			end := strings.IndexByte(s[i:], ')') // one with brackets or strings of its own is not let through
			if end < 0 || strings.ContainsAny(s[i+2:i+end], `("`) || !jqPlain(s[i+2:i+end]) {
				return "", false
			}
			i += end
		case s[i] == '\\':
			i++
		}
	}
	return "", false
}
