"""What NetworkPolicies (networking.k8s.io/v1) mean, as rules of iptables. Values in, lines out.

A pod that some policy selects for ingress is reached only by what one of these policies lets in; the same for egress.
Replies to what was let through always pass, as does what a node says to its own pods: it is not forwarded."""
import ipaddress

CHAIN = 'TRAINYARD-POLICY'
HEAD = ['*filter', ':%s - [0:0]' % CHAIN,
        '-A %s -m conntrack --ctstate ESTABLISHED,RELATED -j RETURN' % CHAIN]


def selects(selector, labels):
    """Whether a LabelSelector picks an object with these labels; {} picks all."""
    for key, value in (selector.get('matchLabels') or {}).items():
        if labels.get(key) != value:
            return False
    for rule in selector.get('matchExpressions') or []:
        value, values = labels.get(rule['key']), rule.get('values') or []
        holds = {'In': value in values, 'NotIn': value not in values, 'Exists': value is not None,
                 'DoesNotExist': value is None}[rule['operator']]
        if not holds:
            return False
    return True


def _labels(item):
    return item['metadata'].get('labels') or {}


def _reachable(pods):
    """Those with an IP of their own that have not ended."""
    return [pod for pod in pods if pod.get('status', {}).get('podIP') and not pod['spec'].get('hostNetwork') and
            pod['status'].get('phase') not in ('Succeeded', 'Failed')]


def _block(block):
    """The ranges of an ipBlock without those that it excepts."""
    ranges = [ipaddress.ip_network(block['cidr'])]
    for excepted in map(ipaddress.ip_network, block.get('except') or []):
        ranges = [part for whole in ranges for part in (
            whole.address_exclude(excepted) if excepted.subnet_of(whole) else [whole])]
    return [str(part) for part in ranges]


def _peers(peer, namespace, pods, spaces):
    """[(address or range, pod or None)] that one peer of a policy in `namespace` names."""
    if 'ipBlock' in peer:
        return [(part, None) for part in _block(peer['ipBlock'])]
    if 'namespaceSelector' in peer:
        homes = {name for name, space in spaces.items() if selects(peer['namespaceSelector'] or {}, _labels(space))}
    else:
        homes = {namespace}
    return [(pod['status']['podIP'], pod) for pod in pods
            if pod['metadata']['namespace'] in homes and selects(peer.get('podSelector') or {}, _labels(pod))]


def _matches(ports, pod):
    """The part of a rule that names protocol and port, one for each; [''] for any. `pod` listens, None where unknown."""
    if not ports:
        return ['']
    found = []
    for entry in ports:
        protocol, port = entry.get('protocol', 'TCP').lower(), entry.get('port')
        if isinstance(port, str):
            named = [p for c in (pod or {'spec': {'containers': []}})['spec']['containers'] for p in c.get('ports') or []
                     if p.get('name') == port and p.get('protocol', 'TCP').lower() == protocol]
            found += ['-p %s --dport %d' % (protocol, p['containerPort']) for p in named]
        elif port is None:
            found.append('-p ' + protocol)
        else:
            found.append('-p %s --dport %d:%d' % (protocol, port, entry.get('endPort', port)))
    return found


def _allowed(policy, way, pod, pods, spaces):
    """What one policy lets reach this pod ('ingress'), or lets it reach ('egress'): addresses and ports."""
    side, other = ('-s', 'from') if way == 'ingress' else ('-d', 'to')
    for rule in policy['spec'].get(way) or []:
        ends = [end for peer in rule.get(other) or [] for end in _peers(peer, policy['metadata']['namespace'], pods, spaces)]
        for address, found in ends if rule.get(other) else [(None, None)]:
            for match in _matches(rule.get('ports'), pod if way == 'ingress' else found):
                yield ' '.join(filter(None, [side + ' ' + address if address else '', match]))


def _is_for(policy, way, pod):
    spec = policy['spec']
    types = spec.get('policyTypes') or ['Ingress'] + (['Egress'] if spec.get('egress') else [])
    return (way.capitalize() in types and policy['metadata']['namespace'] == pod['metadata']['namespace'] and
            selects(spec.get('podSelector') or {}, _labels(pod)))


def rules(policies, pods, namespaces):
    """The lines for `iptables-restore --noflush` that put these policies in force, in place of earlier ones."""
    pods = sorted(_reachable(pods), key=lambda pod: pod['metadata']['uid'])
    spaces = {space['metadata']['name']: space for space in namespaces}
    chains, jumps, lines = [], [], []
    for pod in pods:
        for way, side in (('ingress', '-d'), ('egress', '-s')):
            mine = [policy for policy in policies if _is_for(policy, way, pod)]
            if not mine:
                continue
            chain = 'TRAINYARD-%s-%s' % (way[:2].upper(), pod['metadata']['uid'][:13])
            chains.append(':%s - [0:0]' % chain)
            jumps.append('-A %s %s %s -j %s' % (CHAIN, side, pod['status']['podIP'], chain))
            for policy in mine:
                lines += [('-A %s %s' % (chain, what)).strip() + ' -j RETURN'
                          for what in _allowed(policy, way, pod, pods, spaces)]
            lines.append('-A %s -j DROP' % chain)
    return HEAD + chains + jumps + lines + ['COMMIT', '']
