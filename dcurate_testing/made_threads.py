"""Threads as programs for forums write them: the posts are known, and the markup is like theirs."""

# ruff: noqa: E501 - markup is read best on a line

from __future__ import annotations

import html
import random
from collections.abc import Callable, Sequence
from typing import NamedTuple

_MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
_PEOPLE = (
    "anna",
    "Bob_7",
    "carl.g",
    "Dora the 2nd",
    "eve",
    "Łukasz",
    "山田",
    "user123",
    "Posts",
    "mike-x",
    "Q",
    "Ben Ali",
)


class MadePost(NamedTuple):
    """A post of a thread: its author, its date as day, month and year with a time, and the paragraphs of its text."""

    author: str
    date: str
    paragraphs: list[str]

    @property
    def body(self) -> str:
        return "".join(f"<p>{html.escape(text)}</p>" for text in self.paragraphs)

    @property
    def lines(self) -> str:
        return "<br><br>".join(map(html.escape, self.paragraphs))

    @property
    def text(self) -> str:
        return "\n\n".join(self.paragraphs)


def made_posts(sentences: Sequence[str], chance: random.Random) -> list[MadePost]:
    """Return the posts of a thread: from two to nine, of one to three paragraphs."""
    posts = []
    for _ in range(chance.randint(2, 9)):
        date = f"{chance.choice(_MONTHS)} {chance.randint(1, 28)}, {chance.randint(2004, 2024)}, {chance.randint(10, 23)}:{chance.randint(10, 59)}"
        texts = [" ".join(chance.choices(sentences, k=chance.randint(1, 4))) for _ in range(chance.randint(1, 3))]
        posts.append(MadePost(chance.choice(_PEOPLE), date, texts))
    return posts


_MENU = "<div id='header'><a href='/'>Board index</a> <a href='/faq'>FAQ</a> <a href='/login'>Log in</a></div>"
_END = "<div id='footer'><p>Powered by a program for forums</p><a href='/privacy'>Privacy</a></div>"


def _page(title: str, posts: str, before: str = "", after: str = "") -> str:
    return f"<html><head><title>{title}</title></head><body>{_MENU}{before}{posts}{after}{_END}</body></html>"


def phpbb(title: str, posts: Sequence[MadePost]) -> str:
    return _page(title, "".join(
        f"<div id='p{n}' class='post has-profile bg{n % 2 + 1}'><div class='inner'><dl class='postprofile'><dt><a href='./memberlist.php?mode=viewprofile&amp;u={n}' class='username'>{html.escape(p.author)}</a></dt><dd class='profile-posts'><strong>Posts:</strong> 12</dd><dd><strong>Joined:</strong> Wed Jan 01, 2003 1:00 am</dd></dl>"
        f"<div class='postbody'><h3><a href='#p{n}'>Re: {title}</a></h3><p class='author'><a href='#p{n}'>Post</a> by <strong><a href='./memberlist.php?mode=viewprofile&amp;u={n}' class='username'>{html.escape(p.author)}</a></strong> &raquo; {p.date}</p><div class='content'>{p.lines}</div><div class='signature'>Be kind.</div></div></div></div>"
        for n, p in enumerate(posts)), f"<h2 class='topic-title'><a href='./viewtopic.php?t=1'>{title}</a></h2>")  # fmt: skip


def phpbb2(title: str, posts: Sequence[MadePost]) -> str:
    return _page(title, "<table class='forumline'><tr><th>Author</th><th>Message</th></tr>" + "".join(
        f"<tr><td class='row1'><span class='name'><b>{html.escape(p.author)}</b></span><br><span class='postdetails'>Joined: 03 May 2003<br>Posts: 12</span></td><td class='row1'><table><tr><td><span class='postdetails'>Posted: {p.date}</span></td><td><a href='q'>quote</a></td></tr><tr><td colspan=2><span class='postbody'>{p.lines}</span></td></tr></table></td></tr>"
        for n, p in enumerate(posts)) + "</table>")  # fmt: skip


def vbulletin3(title: str, posts: Sequence[MadePost]) -> str:
    return _page(title, "<div id='posts'>" + "".join(
        f"<div align='center'><table class='tborder' id='post{n}'><tr><td class='thead'>{p.date}</td><td class='thead'>#<a href='x'>{n}</a></td></tr><tr><td class='alt2'><a class='bigusername' href='member.php?u={n}'>{html.escape(p.author)}</a><div>Join Date: Jan 2004<br>Posts: 5</div></td><td class='alt1' id='td_post_{n}'><div class='smallfont'><strong>Re: {title}</strong></div><hr><div id='post_message_{n}'>{p.lines}</div></td></tr></table></div>"
        for n, p in enumerate(posts, 100)) + "</div>")  # fmt: skip


def vbulletin4(title: str, posts: Sequence[MadePost]) -> str:
    return _page(title, "<ol id='posts' class='posts'>" + "".join(
        f"<li class='postbitlegacy postbitim postcontainer old' id='post_{n}'><div class='posthead'><span class='postdate old'><span class='date'>{p.date}</span></span><span class='nodecontrols'><a href='x' class='postcounter'>#{n}</a></span></div><div class='postdetails'><div class='userinfo'><div class='username_container'><a class='username offline popupctrl' href='member.php?{n}-x'><strong>{html.escape(p.author)}</strong></a></div><span class='usertitle'>Senior Member</span><dl class='userinfo_extra'><dt>Join Date</dt><dd>May 2009</dd></dl></div><div class='postbody'><h2 class='title icon'>{title}</h2><div class='content'><div id='post_message_{n}'><blockquote class='postcontent restore'>{p.lines}</blockquote></div></div></div></div></li>"
        for n, p in enumerate(posts, 1)) + "</ol>")  # fmt: skip


def xenforo(title: str, posts: Sequence[MadePost]) -> str:
    return _page(title, f"<h1 class='p-title-value'>{title}</h1><div class='block-body'>" + "".join(
        f"<article class='message message--post' data-author='{html.escape(p.author)}' id='js-post-{n}'><div class='message-inner'><div class='message-cell message-cell--user'><section class='message-user'><div class='message-userDetails'><h4 class='message-name'><a href='/members/x.{n}/' class='username'>{html.escape(p.author)}</a></h4><h5 class='userTitle message-userTitle'>Member</h5></div><div class='message-userExtras'><dl class='pairs'><dt>Joined</dt><dd>May 3, 2010</dd></dl></div></section></div><div class='message-cell message-cell--main'><header class='message-attribution'><a href='/threads/1'><time class='u-dt' datetime='2020-01-01T10:00:00'>{p.date}</time></a> <a href='x'>#{n}</a></header><div class='message-content'><article class='message-body js-selectToQuote'><div class='bbWrapper'>{p.lines}</div></article></div><footer class='message-footer'><a class='actionBar-action'>Like</a></footer></div></div></article>"
        for n, p in enumerate(posts, 1)) + "</div>")  # fmt: skip


def discourse(title: str, posts: Sequence[MadePost]) -> str:
    return _page(title, f"<div id='main-outlet' itemscope itemtype='http://schema.org/DiscussionForumPosting'><h1><a href='/t/1'>{title}</a></h1>" + "".join(
        f"<div id='post_{n}' {'itemprop=comment itemscope itemtype=http://schema.org/Comment' if n > 1 else ''} class='topic-body crawler-post'><div class='crawler-post-meta'><span class='creator' itemprop='author' itemscope itemtype='http://schema.org/Person'><a itemprop='url' href='/u/x'><span itemprop='name'>{html.escape(p.author)}</span></a></span><span class='crawler-post-infos'><time itemprop='datePublished' datetime='2021-01-01T00:00:00Z' class='post-time'>{p.date}</time><span itemprop='position'>{n}</span></span></div><div class='post' itemprop='text'>{p.body}</div></div>"
        for n, p in enumerate(posts, 1)) + "</div>")  # fmt: skip


def stack_exchange(title: str, posts: Sequence[MadePost]) -> str:
    def post(p: MadePost, n: int, verb: str) -> str:
        return (
            f"<div class='post-layout'><div class='votecell'><div class='js-vote-count'>5</div></div><div class='{'post' if verb == 'asked' else 'answer'}cell'><div class='s-prose js-post-body' itemprop='text'>{p.body}</div><div class='post-signature'><div class='user-info'><div class='user-action-time'>{verb} <span title='x' class='relativetime'>{p.date}</span></div><div class='user-details' itemprop='author'><a href='/users/{n}/x'>{html.escape(p.author)}</a><div class='-flair'><span class='reputation-score'>101</span></div></div></div></div></div></div>"
        )  # fmt: skip

    answers = "".join(
        f"<div id='answer-{n}' class='answer' itemprop='suggestedAnswer' itemscope itemtype='https://schema.org/Answer'>{post(p, n, 'answered')}</div>"
        for n, p in enumerate(posts[1:], 1)
    )
    return _page(title, f"<div itemprop='mainEntity' itemscope itemtype='https://schema.org/Question'><h1><a href='/q'>{title}</a></h1><div id='mainbar'><div class='question' id='question'>{post(posts[0], 0, 'asked')}</div><div id='answers'><h2>{len(posts) - 1} Answers</h2>{answers}</div></div></div>")  # fmt: skip


def smf(title: str, posts: Sequence[MadePost]) -> str:
    return _page(title, "<div id='forumposts'>" + "".join(
        f"<div class='windowbg{n % 2 + 1}'><div class='post_wrapper'><div class='poster'><h4><a href='index.php?action=profile;u={n}'>{html.escape(p.author)}</a></h4><ul><li>Newbie</li><li>Posts: 3</li></ul></div><div class='postarea'><div class='keyinfo'><h5><a href='x'>Re: {title}</a></h5><div class='smalltext'>&#171; <strong>Reply #{n} on:</strong> {p.date} &#187;</div></div><div class='post'><div class='inner' id='msg_{n}'>{p.lines}</div></div></div></div></div>"
        for n, p in enumerate(posts)) + "</div>")  # fmt: skip


def hacker_news(title: str, posts: Sequence[MadePost]) -> str:
    return _page(title, f"<table><tr class='athing'><td class='title'><a href='x'>{title}</a></td></tr></table><table class='comment-tree'>" + "".join(
        f"<tr class='athing comtr' id='{n}'><td><table><tr><td class='ind'></td><td class='default'><div><span class='comhead'><a href='user?id=x' class='hnuser'>{html.escape(p.author)}</a> <span class='age' title='x'><a href='item?id={n}'>{p.date}</a></span></span></div><div class='comment'><div class='commtext c00'>{p.body}</div><div class='reply'><a href='r'>reply</a></div></div></td></tr></table></td></tr>"
        for n, p in enumerate(posts)) + "</table>")  # fmt: skip


# Templates that were tried once the rules were made, and corrected them


def mybb(title: str, posts: Sequence[MadePost]) -> str:
    return _page(title, "<div id='posts'>" + "".join(
        f"<a name='pid{n}' id='pid{n}'></a><div class='post classic' id='post_{n}'><div class='post_author scaleimages'><div class='author_information'><strong><span class='largetext'><a href='member.php?action=profile&amp;uid={n}'>{html.escape(p.author)}</a></span></strong><br><span class='smalltext'>Junior Member</span></div><div class='author_statistics'>Posts: 4<br>Threads: 1<br>Joined: Mar 2012</div></div><div class='post_content'><div class='post_head'><div class='float_right'><strong><a href='x'>#{n}</a></strong></div><span class='post_date'>{p.date}</span></div><div class='post_body scaleimages' id='pid_{n}'>{p.lines}</div><div class='post_meta' id='post_meta_{n}'></div></div></div>"
        for n, p in enumerate(posts, 1)) + "</div>")  # fmt: skip


def flarum(title: str, posts: Sequence[MadePost]) -> str:
    return _page(title, f"<div class='container'><h1>{title}</h1><div>" + "".join(
        f"<article><div class='PostUser'><h3 class='PostUser-name'>{html.escape(p.author)}</h3></div><div class='Post-body'>{p.body}</div><div>{p.date}</div></article><hr>"
        for p in posts) + "</div></div>")  # fmt: skip


def nodebb(title: str, posts: Sequence[MadePost]) -> str:
    return _page(title, f"<h1 component='topic/title'>{title}</h1><ul component='topic' class='posts'>" + "".join(
        f"<li component='post' class='topic-owner-post' data-pid='{n}' itemprop='comment' itemscope itemtype='http://schema.org/Comment'><meta itemprop='datePublished' content='2020'><div class='clearfix post-header'><small><strong><a href='/user/x' itemprop='author' data-username='x'>{html.escape(p.author)}</a></strong><span class='visible-xs-inline-block'> <a class='permalink' href='/post/{n}'><span class='timeago' title='x'>{p.date}</span></a></span></small></div><div class='content' component='post/content' itemprop='text'>{p.body}</div><div class='post-footer'><a component='post/reply-count' href='#'>1 Reply</a></div></li>"
        for n, p in enumerate(posts, 1)) + "</ul>")  # fmt: skip


def old_reddit(title: str, posts: Sequence[MadePost]) -> str:
    return _page(title, "<div class='commentarea'><div class='sitetable nestedlisting'>" + "".join(
        f"<div class='thing id-t1_{n} noncollapsed comment' data-author='x'><div class='midcol'></div><div class='entry unvoted'><p class='tagline'><a href='#' class='expand'>[-]</a><a href='https://old.example.org/user/x' class='author may-blank'>{html.escape(p.author)}</a> <span class='score unvoted'>12 points</span> <time title='x' datetime='2020-01-01T00:00:00' class='live-timestamp'>{p.date}</time></p><form action='#' class='usertext'><div class='usertext-body may-blank-within md-container'><div class='md'>{p.body}</div></div></form><ul class='flat-list buttons'><li class='first'><a href='x'>permalink</a></li><li><a href='y'>reply</a></li></ul></div><div class='child'></div></div>"
        for n, p in enumerate(posts)) + "</div></div>")  # fmt: skip


def bbpress(title: str, posts: Sequence[MadePost]) -> str:
    return _page(title, "<ul class='forums bbp-replies'><li class='bbp-body'>" + "".join(
        f"<div id='post-{n}' class='bbp-reply-header'><div class='bbp-meta'><span class='bbp-reply-post-date'>{p.date}</span><a href='#post-{n}' class='bbp-reply-permalink'>#{n}</a></div></div><div class='loop-item-{n} bbp-reply-position-{n} reply type-reply'><div class='bbp-reply-author'><a href='/forums/users/x/' class='bbp-author-link'><span class='bbp-author-name'>{html.escape(p.author)}</span></a><div class='bbp-author-role'>Participant</div></div><div class='bbp-reply-content'>{p.body}</div></div>"
        for n, p in enumerate(posts)) + "</li></ul>")  # fmt: skip


def invision(title: str, posts: Sequence[MadePost]) -> str:
    return _page(title, f"<h1 class='ipsType_pageTitle'><span>{title}</span></h1><div id='elPostFeed'>" + "".join(
        f"<article id='elComment_{n}' class='cPost ipsBox ipsComment ipsComment_parent'><aside class='ipsComment_author cAuthorPane'><h3 class='ipsType_sectionHead cAuthorPane_author'><strong><a href='https://example.org/profile/{n}-x/' class='ipsType_break'>{html.escape(p.author)}</a></strong></h3><ul class='cAuthorPane_info'><li>Members</li><li>57</li></ul></aside><div class='ipsColumn'><div class='ipsComment_meta'><p class='ipsType_reset'><a href='x' class='ipsType_blendLinks'>Posted <time datetime='2020-01-01T00:00:00Z' title='x'>{p.date}</time></a></p></div><div class='cPost_contentWrap'><div data-role='commentContent' class='ipsType_normal ipsType_richText'>{p.body}</div></div><div class='ipsItemControls'><ul><li><a href='q'>Quote</a></li></ul></div></div></article>"
        for n, p in enumerate(posts)) + "</div>")  # fmt: skip


def css_modules(title: str, posts: Sequence[MadePost]) -> str:
    return _page(title, f"<main><h1>{title}</h1><section>" + "".join(
        f"<div class='_1a2b3'><div class='_x9'><a class='_q7' href='/u/{n}'>{html.escape(p.author)}</a><span class='_t0'>{p.date}</span></div><div class='_c5'>{p.body}</div><div class='_z1'><a href='r'>Reply</a> <a href='s'>Share</a></div></div>"
        for n, p in enumerate(posts)) + "</section></main>")  # fmt: skip


def german_table(title: str, posts: Sequence[MadePost]) -> str:
    return _page(title, "<table width='100%' border=1>" + "".join(
        f"<tr><td valign=top width=120><b><a href='profil.php?user={n}'>{html.escape(p.author)}</a></b><br>Beiträge: 17</td><td><small>geschrieben am {p.date}</small><hr>{p.lines}</td></tr>"
        for n, p in enumerate(posts)) + "</table>")  # fmt: skip


def definition_list(title: str, posts: Sequence[MadePost]) -> str:
    return _page(title, f"<h1>{title}</h1><dl>" + "".join(
        f"<div class='row'><dt><cite><a rel='author' href='x'>{html.escape(p.author)}</a></cite>, <time>{p.date}</time></dt><dd>{p.body}</dd></div>" for p in posts) + "</dl>")  # fmt: skip


# Templates that were written when the rules were done


def fluxbb(title: str, posts: Sequence[MadePost]) -> str:
    return _page(title, "".join(
        f"<div id='p{n}' class='blockpost row{'odd' if n % 2 else 'even'}'><h2><span><span class='conr'>#{n}</span> <a href='viewtopic.php?pid={n}#p{n}'>{p.date}</a></span></h2><div class='box'><div class='inbox'><div class='postbody'><div class='postleft'><dl><dt><strong><a href='profile.php?id={n}'>{html.escape(p.author)}</a></strong></dt><dd class='usertitle'><strong>Member</strong></dd><dd><span>Registered: 2009-01-02</span></dd></dl></div><div class='postright'><h3>Re: {title}</h3><div class='postmsg'>{p.body}</div></div></div></div></div></div>"
        for n, p in enumerate(posts, 1)))  # fmt: skip


def vanilla(title: str, posts: Sequence[MadePost]) -> str:
    def entry(n: int, p: MadePost, kind: str) -> str:
        return (
            f"<div class='Comment-{n}'><div class='Item-Header {kind}Header'><div class='AuthorWrap'><span class='Author'><a href='/profile/x' class='PhotoWrap'></a><a href='/profile/x' class='Username'>{html.escape(p.author)}</a></span><span class='AuthorInfo'><span class='MItem'>Member</span></span></div><div class='Meta {kind}Meta'><span class='MItem DateCreated'><a href='x' class='Permalink'><time title='x' datetime='2020-01-01T00:00:00+00:00'>{p.date}</time></a></span></div></div><div class='Item-BodyWrap'><div class='Item-Body'><div class='Message userContent'>{p.body}</div></div></div></div>"
        )  # fmt: skip

    first = f"<div class='MessageList Discussion'><div id='Discussion_1' class='Item ItemDiscussion'>{entry(0, posts[0], 'Discussion')}</div></div>"
    rest = "".join(
        f"<li class='Item ItemComment' id='Comment_{n}'>{entry(n, p, 'Comment')}</li>"
        for n, p in enumerate(posts[1:], 1)
    )
    return _page(title, f"<h1>{title}</h1>{first}<div class='CommentsWrap'><h2>Comments</h2><ul class='MessageList DataList Comments'>{rest}</ul></div>")  # fmt: skip


def woltlab(title: str, posts: Sequence[MadePost]) -> str:
    return _page(title, "<ul class='wbbThreadPostList messageList'>" + "".join(
        f"<li class='anchorFixedHeader'><article id='post{n}' class='wbbPost message messageSidebarOrientationLeft' data-post-id='{n}'><aside role='presentation' class='sidebar messageSidebar member'><div class='messageAuthor'><div class='messageAuthorContainer'><a href='/user/{n}-x/' class='username userLink'><span>{html.escape(p.author)}</span></a></div><div class='userTitle'><span class='badge'>Schüler</span></div></div><div class='userCredits'><dl class='plain'><dt>Beiträge</dt><dd>14</dd></dl></div></aside><div class='messageContent'><header class='messageHeader'><ul class='inlineList messageHeaderMetaData'><li><a href='x' class='permalink messagePublicationTime'><woltlab-core-date-time><time datetime='2020'>{p.date}</time></woltlab-core-date-time></a></li></ul><ul class='messageQuickOptions'><li><a href='x'>#{n}</a></li></ul></header><div class='messageBody'><div class='messageText'>{p.body}</div></div><footer class='messageFooter'><ul><li><a href='z'>Zitieren</a></li></ul></footer></div></article></li>"
        for n, p in enumerate(posts, 1)) + "</ul>")  # fmt: skip


def code_forge(title: str, posts: Sequence[MadePost]) -> str:
    return _page(title, f"<h1><bdi>{title}</bdi> <span>#12</span></h1><div class='js-discussion'>" + "".join(
        f"<div class='TimelineItem js-comment-container' id='issuecomment-{n}'><div class='timeline-comment-group'><div class='timeline-comment-header'><h3 class='text-normal'><strong><a class='author Link--primary' href='/x'>{html.escape(p.author)}</a></strong> commented <a href='#i' class='js-timestamp'><relative-time datetime='2020'>{p.date}</relative-time></a></h3></div><div class='edit-comment-hide'><div class='comment-body markdown-body js-comment-body'>{p.body}</div></div></div></div>"
        for n, p in enumerate(posts)) + "</div>")  # fmt: skip


def mail_archive(title: str, posts: Sequence[MadePost]) -> str:
    return _page(title, f"<h3>{title}</h3><div class='replies'>" + "".join(
        f"<div class='{'even' if n % 2 else 'odd'}'><div class='email' id='M{n}'><div class='email-header'><div class='gravatar-wrapper'></div><div class='email-author'><h2 class='name'><a href='/users/x'>{html.escape(p.author)}</a></h2></div><div class='email-date'><div class='time'><span title='Sender'>{p.date}</span></div></div></div><div class='email-body'><p>{p.lines}</p></div><div class='email-info'><a href='r'>Reply</a> <a href='l'>0 0</a></div></div></div>"
        for n, p in enumerate(posts)) + "</div>")  # fmt: skip


def nested_replies(title: str, posts: Sequence[MadePost]) -> str:
    nested = ""
    for n, p in reversed(list(enumerate(posts))):
        nested = f"<ul class='comments'><li class='comment list-unstyled'><article id='comment-{n}' class='comment-node'><div class='d-flex small text-muted'><a class='person-listing' href='/u/x'>{html.escape(p.author)}</a> &bull; <span class='moment-time' title='x'>{p.date}</span></div><div class='comment-content'><div class='md-div'>{p.body}</div></div><div class='buttons'><a href='r'>reply</a></div></article>{nested}</li></ul>"
    return _page(title, f"<h1>{title}</h1>{nested}")


def headings_only(title: str, posts: Sequence[MadePost]) -> str:
    return _page(title, f"<h1>{title}</h1>" + "".join(
        f"<h4><a href='/user/x'>{html.escape(p.author)}</a> <small>{p.date}</small></h4>{p.body}<hr>" for p in posts))  # fmt: skip


Template = Callable[[str, Sequence[MadePost]], str]
#: Templates that the rules were made with; others, whose results corrected the rules once; and those that no rule saw.
TUNED: tuple[Template, ...] = (
    phpbb,
    phpbb2,
    vbulletin3,
    vbulletin4,
    xenforo,
    discourse,
    stack_exchange,
    smf,
    hacker_news,
)
OTHERS: tuple[Template, ...] = (
    *(mybb, flarum, nodebb, old_reddit, bbpress, invision, css_modules, german_table, definition_list, fluxbb),
)
UNSEEN: tuple[Template, ...] = (*(vanilla, woltlab, code_forge, mail_archive, nested_replies, headings_only),)
