"""The words of the demonstration corpus: English words with their German translations, as plain tables.

`lexicon` reads the tables and derives the inflected forms; the tables hold only forms that no rule can derive. In each
table frequent words come first, because `sampling` draws a word with a probability that decreases with its rank.

A *kind* is a letter for the meaning of a noun, with which verbs and adjectives restrict their arguments:

    p person   a animal   t thing   f food   d text   v vehicle   l place   e event   x abstract
"""

# kind -> "english[/plural] German gender genitive plural"; entries end with ";". A genitive "-" is the nominative.
# Gender w is a weak masculine: accusative and dative look like the genitive (der Junge, den Jungen).
NOUNS = {
    "p": """
        man/men Mann m Mannes Männer; woman/women Frau f - Frauen; child/children Kind n Kindes Kinder;
        teacher Lehrer m Lehrers Lehrer; friend Freund m Freundes Freunde; girl Mädchen n Mädchens Mädchen;
        boy Junge w Jungen Jungen; mother Mutter f - Mütter; father Vater m Vaters Väter;
        doctor Arzt m Arztes Ärzte; student Student w Studenten Studenten; brother Bruder m Bruders Brüder;
        sister Schwester f - Schwestern; neighbor Nachbar w Nachbarn Nachbarn; farmer Bauer w Bauern Bauern;
        king König m Königs Könige; queen Königin f - Königinnen; aunt Tante f - Tanten;
        uncle Onkel m Onkels Onkel; pupil Schüler m Schülers Schüler; daughter Tochter f - Töchter;
        son Sohn m Sohnes Söhne; baker Bäcker m Bäckers Bäcker; cook Koch m Kochs Köche;
        guest Gast m Gastes Gäste; policeman/policemen Polizist w Polizisten Polizisten;
        soldier Soldat w Soldaten Soldaten; judge Richter m Richters Richter; lawyer Anwalt m Anwalts Anwälte;
        painter Maler m Malers Maler; nurse Krankenschwester f - Krankenschwestern;
        writer Schriftsteller m Schriftstellers Schriftsteller; waitress Kellnerin f - Kellnerinnen;
        waiter Kellner m Kellners Kellner; singer Sänger m Sängers Sänger; customer Kunde w Kunden Kunden;
        actor Schauspieler m Schauspielers Schauspieler; actress Schauspielerin f - Schauspielerinnen;
        thief/thieves Dieb m Diebes Diebe; engineer Ingenieur m Ingenieurs Ingenieure;
        prince Prinz w Prinzen Prinzen; princess Prinzessin f - Prinzessinnen; witch Hexe f - Hexen;
        scientist Wissenschaftler m Wissenschaftlers Wissenschaftler; colleague Kollege w Kollegen Kollegen;
        grandmother Großmutter f - Großmütter; grandfather Großvater m Großvaters Großväter;
        artist Künstler m Künstlers Künstler; tourist Tourist w Touristen Touristen; baby Baby n Babys Babys;
        driver Fahrer m Fahrers Fahrer; worker Arbeiter m Arbeiters Arbeiter; hero/heroes Held w Helden Helden;
        gardener Gärtner m Gärtners Gärtner; mayor Bürgermeister m Bürgermeisters Bürgermeister;
        musician Musiker m Musikers Musiker; player Spieler m Spielers Spieler; giant Riese w Riesen Riesen;
        captain Kapitän m Kapitäns Kapitäne; pilot Pilot w Piloten Piloten; niece Nichte f - Nichten;
        nephew Neffe w Neffen Neffen; widow Witwe f - Witwen; nun Nonne f - Nonnen; monk Mönch m Mönchs Mönche;
    """,
    "a": """
        dog Hund m Hundes Hunde; cat Katze f - Katzen; horse Pferd n Pferdes Pferde; bird Vogel m Vogels Vögel;
        cow Kuh f - Kühe; pig Schwein n Schweines Schweine; mouse/mice Maus f - Mäuse; bear Bär w Bären Bären;
        wolf/wolves Wolf m Wolfes Wölfe; fox Fuchs m Fuchses Füchse; goat Ziege f - Ziegen; hare Hase w Hasen Hasen;
        lion Löwe w Löwen Löwen; elephant Elefant w Elefanten Elefanten; monkey Affe w Affen Affen;
        snake Schlange f - Schlangen; frog Frosch m Frosches Frösche; duck Ente f - Enten; donkey Esel m Esels Esel;
        goose/geese Gans f - Gänse; chicken Huhn n Huhns Hühner; owl Eule f - Eulen; tiger Tiger m Tigers Tiger;
        rat Ratte f - Ratten; camel Kamel n Kamels Kamele; hedgehog Igel m Igels Igel; crow Krähe f - Krähen;
        squirrel Eichhörnchen n Eichhörnchens Eichhörnchen; turtle Schildkröte f - Schildkröten;
        lamb Lamm n Lammes Lämmer; crocodile Krokodil n Krokodils Krokodile;
    """,
    "t": """
        table Tisch m Tisches Tische; chair Stuhl m Stuhls Stühle; door Tür f - Türen; lamp Lampe f - Lampen;
        window Fenster n Fensters Fenster; key Schlüssel m Schlüssels Schlüssel; picture Bild n Bildes Bilder;
        clock Uhr f - Uhren; bag Tasche f - Taschen; bottle Flasche f - Flaschen; box Kiste f - Kisten;
        hat Hut m Hutes Hüte; coat Mantel m Mantels Mäntel; cup Tasse f - Tassen; glass Glas n Glases Gläser;
        bed Bett n Bettes Betten; knife/knives Messer n Messers Messer; plate Teller m Tellers Teller;
        basket Korb m Korbes Körbe; mirror Spiegel m Spiegels Spiegel; ball Ball m Balles Bälle;
        shoe Schuh m Schuhs Schuhe; dress Kleid n Kleides Kleider; shirt Hemd n Hemdes Hemden;
        jacket Jacke f - Jacken; ring Ring m Ringes Ringe; stone Stein m Steines Steine; tree Baum m Baumes Bäume;
        flower Blume f - Blumen; machine Maschine f - Maschinen; phone Telefon n Telefons Telefone;
        computer Computer m Computers Computer; camera Kamera f - Kameras; gift Geschenk n Geschenks Geschenke;
        spoon Löffel m Löffels Löffel; fork Gabel f - Gabeln; blanket Decke f - Decken; doll Puppe f - Puppen;
        guitar Gitarre f - Gitarren; piano Klavier n Klaviers Klaviere; violin Geige f - Geigen;
        hammer Hammer m Hammers Hämmer; ladder Leiter f - Leitern; rope Seil n Seils Seile;
        shovel Schaufel f - Schaufeln; candle Kerze f - Kerzen; suitcase Koffer m Koffers Koffer;
        coin Münze f - Münzen; sword Schwert n Schwertes Schwerter; wheel Rad n Rades Räder; flag Fahne f - Fahnen;
        fence Zaun m Zaunes Zäune; carpet Teppich m Teppichs Teppiche; cupboard Schrank m Schrankes Schränke;
        shelf/shelves Regal n Regals Regale; curtain Vorhang m Vorhangs Vorhänge; bench Bank f - Bänke;
        bell Glocke f - Glocken; bucket Eimer m Eimers Eimer; button Knopf m Knopfes Knöpfe;
        mask Maske f - Masken; chain Kette f - Ketten; vase Vase f - Vasen; brush Bürste f - Bürsten;
        umbrella Regenschirm m Regenschirms Regenschirme; drum Trommel f - Trommeln; roof Dach n Daches Dächer;
    """,
    "f": """
        apple Apfel m Apfels Äpfel; cake Kuchen m Kuchens Kuchen; egg Ei n Eies Eier; pear Birne f - Birnen;
        sausage Wurst f - Würste; potato/potatoes Kartoffel f - Kartoffeln; tomato/tomatoes Tomate f - Tomaten;
        soup Suppe f - Suppen; cherry Kirsche f - Kirschen; nut Nuss f - Nüsse; carrot Karotte f - Karotten;
        mushroom Pilz m Pilzes Pilze; onion Zwiebel f - Zwiebeln; banana Banane f - Bananen;
        cookie Keks m Kekses Kekse; salad Salat m Salats Salate; strawberry Erdbeere f - Erdbeeren;
        plum Pflaume f - Pflaumen; lemon Zitrone f - Zitronen; cucumber Gurke f - Gurken;
    """,
    "d": """
        book Buch n Buches Bücher; letter Brief m Briefes Briefe; story Geschichte f - Geschichten;
        newspaper Zeitung f - Zeitungen; report Bericht m Berichts Berichte; poem Gedicht n Gedichts Gedichte;
        message Nachricht f - Nachrichten; novel Roman m Romans Romane; article Artikel m Artikels Artikel;
        contract Vertrag m Vertrags Verträge; list Liste f - Listen; diary Tagebuch n Tagebuchs Tagebücher;
        law Gesetz n Gesetzes Gesetze; postcard Postkarte f - Postkarten; note Notiz f - Notizen;
        song Lied n Liedes Lieder; recipe Rezept n Rezepts Rezepte;
    """,
    "v": """
        car Auto n Autos Autos; train Zug m Zuges Züge; bus Bus m Busses Busse; ship Schiff n Schiffes Schiffe;
        bicycle Fahrrad n Fahrrads Fahrräder; boat Boot n Bootes Boote; plane Flugzeug n Flugzeugs Flugzeuge;
        truck Lastwagen m Lastwagens Lastwagen; taxi Taxi n Taxis Taxis; carriage Kutsche f - Kutschen;
        tractor Traktor m Traktors Traktoren; motorcycle Motorrad n Motorrads Motorräder;
        sled Schlitten m Schlittens Schlitten; ambulance Krankenwagen m Krankenwagens Krankenwagen;
    """,
    "e": """
        concert Konzert n Konzerts Konzerte; meeting Besprechung f - Besprechungen; game Spiel n Spiels Spiele;
        storm Sturm m Sturmes Stürme; wedding Hochzeit f - Hochzeiten; war Krieg m Krieges Kriege;
        journey Reise f - Reisen; exam Prüfung f - Prüfungen; festival Fest n Festes Feste;
        lecture Vorlesung f - Vorlesungen; conference Konferenz f - Konferenzen; accident Unfall m Unfalls Unfälle;
        flight Flug m Fluges Flüge; race Rennen n Rennens Rennen; election Wahl f - Wahlen;
        strike Streik m Streiks Streiks; dance Tanz m Tanzes Tänze; celebration Feier f - Feiern;
    """,
    "x": """
        problem Problem n Problems Probleme; idea Idee f - Ideen; plan Plan m Plans Pläne;
        question Frage f - Fragen; answer Antwort f - Antworten; mistake Fehler m Fehlers Fehler;
        secret Geheimnis n Geheimnisses Geheimnisse; dream Traum m Traumes Träume; rule Regel f - Regeln;
        decision Entscheidung f - Entscheidungen; project Projekt n Projekts Projekte;
        result Ergebnis n Ergebnisses Ergebnisse; wish Wunsch m Wunsches Wünsche; reason Grund m Grundes Gründe;
        proposal Vorschlag m Vorschlags Vorschläge; method Methode f - Methoden; theory Theorie f - Theorien;
        danger Gefahr f - Gefahren; solution Lösung f - Lösungen; price Preis m Preises Preise;
    """,
}

# Places by the preposition they take: in/in (into: in + accusative), on/auf (onto: auf + accusative), at/an (to: zu).
PLACES = {
    "in": """
        house Haus n Hauses Häuser; garden Garten m Gartens Gärten; city Stadt f - Städte; kitchen Küche f - Küchen;
        forest Wald m Waldes Wälder; village Dorf n Dorfes Dörfer; school Schule f - Schulen;
        room Zimmer n Zimmers Zimmer; park Park m Parks Parks; church Kirche f - Kirchen;
        restaurant Restaurant n Restaurants Restaurants; hotel Hotel n Hotels Hotels;
        hospital Krankenhaus n Krankenhauses Krankenhäuser; shop Laden m Ladens Läden; office Büro n Büros Büros;
        museum Museum n Museums Museen; library Bibliothek f - Bibliotheken; castle Schloss n Schlosses Schlösser;
        factory Fabrik f - Fabriken; theater Theater n Theaters Theater; tower Turm m Turmes Türme;
        apartment Wohnung f - Wohnungen; harbor Hafen m Hafens Häfen; cave Höhle f - Höhlen;
        stable Stall m Stalls Ställe; cellar Keller m Kellers Keller; valley Tal n Tals Täler;
        barn Scheune f - Scheunen; bakery Bäckerei f - Bäckereien; prison Gefängnis n Gefängnisses Gefängnisse;
        pharmacy Apotheke f - Apotheken; desert Wüste f - Wüsten; hall Halle f - Hallen;
    """,
    "on": """
        street Straße f - Straßen; bridge Brücke f - Brücken; field Feld n Feldes Felder; mountain Berg m Berges Berge;
        hill Hügel m Hügels Hügel; square Platz m Platzes Plätze; island Insel f - Inseln; meadow Wiese f - Wiesen;
        farm Bauernhof m Bauernhofs Bauernhöfe; balcony Balkon m Balkons Balkone; terrace Terrasse f - Terrassen;
    """,
    "at": """
        station Bahnhof m Bahnhofs Bahnhöfe; river Fluss m Flusses Flüsse; lake See m Sees Seen;
        airport Flughafen m Flughafens Flughäfen; beach Strand m Strandes Strände;
        lighthouse Leuchtturm m Leuchtturms Leuchttürme; border Grenze f - Grenzen; coast Küste f - Küsten;
    """,
}

# First parts of German compounds with their linking element: "english German". Heads are nouns of the kinds below.
COMPOUND_KINDS = "tvdxlef"
COMPOUND_MODIFIERS = """
    garden Garten; kitchen Küchen; winter Winter; summer Sommer; school Schul; city Stadt; village Dorf; forest Wald;
    family Familien; work Arbeits; night Nacht; church Kirchen; sea Meeres; mountain Berg; holiday Ferien;
    government Regierungs; market Markt; music Musik; travel Reise; company Firmen; history Geschichts; river Fluss;
    palace Palast; street Straßen; hotel Hotel; police Polizei; army Armee; university Universitäts; sports Sport;
    morning Morgen; evening Abend; weekend Wochenend; birthday Geburtstags; peace Friedens; desert Wüsten;
    science Wissenschafts; harbor Hafen; hospital Krankenhaus; state Staats; country Landes; nature Natur;
    steel Stahl; silver Silber; gold Gold; crystal Kristall; paper Papier; leather Leder; iron Eisen; copper Kupfer;
    marble Marmor; ice Eis; wood Holz; glass Glas; stone Stein; bedroom Schlafzimmer; emergency Notfall;
    training Trainings; security Sicherheits; energy Energie; computer Computer; traffic Verkehrs; weather Wetter;
    autumn Herbst; spring Frühlings; island Insel; border Grenz; castle Schloss; theater Theater; museum Museums;
    station Bahnhofs; airport Flughafen; office Büro; factory Fabrik; doll Puppen; wedding Hochzeits;
    Christmas Weihnachts; Easter Oster; children Kinder; student Studenten; guest Gäste; union Gewerkschafts;
    economy Wirtschafts; culture Kultur; art Kunst; film Film; radio Radio; television Fernseh; dream Traum;
"""

# Verbs by frame: "english | German | kinds of the subject | kinds of the object".
#   English: base form, past and participle unless regular; "+for" is the preposition of the object, "·up" a particle.
#   German: infinitive ("·" after a separable prefix), then, unless weak and regular, the third person of the present
#   and of the preterite and the participle; "*" marks the perfect with sein; "+auf/A" is a preposition with its case.
VERBS = {
    "intransitive": """
        sleep slept slept | schlafen schläft schlief geschlafen | pa
        work | arbeiten | p
        laugh | lachen | p
        wait | warten | p
        sing sang sung | singen singt sang gesungen | p
        dance | tanzen | p
        cry | weinen | p
        swim swam swum | schwimmen schwimmt schwamm *geschwommen | pa
        smile | lächeln | p
        arrive | an·kommen kommt kam *gekommen | pv
        disappear | verschwinden verschwindet verschwand *verschwunden | patfdvx
        wake·up woke woken | auf·wachen wacht wachte *gewacht | pa
        get·up got gotten | auf·stehen steht stand *gestanden | p
        stop stopped stopped | an·halten hält hielt gehalten | v
        begin began begun | beginnen beginnt begann begonnen | e
        end | enden | e
        burn | brennen brennt brannte gebrannt | tl
        die | sterben stirbt starb *gestorben | pa
        fight fought fought | kämpfen | pa
        fail | scheitern scheitert scheiterte *gescheitert | xp
        escape | entkommen entkommt entkam *entkommen | pa
        hesitate | zögern | p
        grow grew grown | wachsen wächst wuchs *gewachsen | xa
        snore | schnarchen | p
        whisper | flüstern | p
        suffer | leiden leidet litt gelitten | pa
        rot rotted rotted | faulen | f
    """,
    "transitive": """
        see saw seen | sehen sieht sah gesehen | pa | patfdvl
        find found found | finden findet fand gefunden | pa | patfdvlx
        buy bought bought | kaufen | p | tfdva
        sell sold sold | verkaufen | p | tfdval
        visit | besuchen | p | plp
        love | lieben | p | padfl
        look +for | suchen | pa | patdv
        write wrote written | schreiben schreibt schrieb geschrieben | p | d
        call | an·rufen ruft rief gerufen | p | p
        forget forgot forgotten | vergessen vergisst vergaß vergessen | p | ptdxe
        eat ate eaten | essen isst aß gegessen | p | f
        eat ate eaten | fressen frisst fraß gefressen | a | f
        chase | jagen | pa | a
        invite | ein·laden lädt lud geladen | p | p
        carry | tragen trägt trug getragen | pa | tf
        repair | reparieren | p | tv
        watch | beobachten | pa | pav
        hear heard heard | hören | pa | paxd
        lose lost lost | verlieren verliert verlor verloren | p | tde
        steal stole stolen | stehlen stiehlt stahl gestohlen | pa | tfdv
        build built built | bauen | p | lvt
        open | öffnen | p | t
        close | schließen schließt schloss geschlossen | p | tl
        paint | malen | p | pat
        clean | putzen | p | tlv
        meet met met | treffen trifft traf getroffen | p | p
        understand understood understood | verstehen versteht verstand verstanden | p | pdx
        bite bit bitten | beißen beißt biss gebissen | a | pa
        feed fed fed | füttern | p | a
        catch caught caught | fangen fängt fing gefangen | pa | pa
        fetch | holen | p | ptfd
        look +at | an·sehen sieht sah gesehen | pa | patdl
        pick·up | ab·holen | p | ptd
        throw·away threw thrown | weg·werfen wirft warf geworfen | p | tfd
        turn·off | aus·schalten | p | t
        hide hid hidden | verstecken | pa | tfd
        use | benutzen | p | tvx
        destroy | zerstören | pa | tvldx
        break broke broken | zerbrechen zerbricht zerbrach zerbrochen | pa | t
        describe | beschreiben beschreibt beschrieb beschrieben | pd | paltxe
        explain | erklären | pd | xde
        solve | lösen | p | x
        discuss | besprechen bespricht besprach besprochen | p | xde
        greet | grüßen | p | p
        praise | loben | p | pxd
        admire | bewundern | p | pal
        save | retten | p | pa
        protect | schützen | pa | pal
        attack | an·greifen greift griff gegriffen | pa | pal
        arrest | verhaften | p | p
        punish | bestrafen | p | p
        marry | heiraten | p | p
        miss | verpassen | p | ve
        cook | kochen | p | f
        wash | waschen wäscht wusch gewaschen | p | tfv
        pull | ziehen zieht zog gezogen | pa | tv
        push | schieben schiebt schob geschoben | p | tv
        sign | unterschreiben unterschreibt unterschrieb unterschrieben | p | d
        translate | übersetzen übersetzt übersetzte übersetzt | p | d
        print | drucken | p | d
        copy | kopieren | p | d
        plant | pflanzen | p | f
        order | bestellen | p | tfdv
        taste | probieren | p | f
        peel | schälen | p | f
        organize | organisieren | p | e
        cancel | ab·sagen | p | e
        support | unterstützen unterstützt unterstützte unterstützt | p | px
        examine | untersuchen untersucht untersuchte untersucht | p | patvdx
        improve | verbessern | p | xdt
        change | ändern | p | xd
        defend | verteidigen | pa | plx
        control controlled controlled | kontrollieren | p | pvl
        reject | ab·lehnen | p | xd
        accept | an·nehmen nimmt nahm genommen | p | xt
    """,
    "stative": """
        have had had | haben hat hatte gehabt | p | tfdvax
        know knew known | kennen kennt kannte gekannt | p | pldx
        need | brauchen | p | ptdvx
        own | besitzen besitzt besaß besessen | p | vlta
        hate | hassen | p | paxe
        fear | fürchten | pa | pax
        deserve | verdienen | p | t
        contain | enthalten enthält enthielt enthalten | d | x
    """,
    "dative": """
        help | helfen hilft half geholfen | p | pa
        follow | folgen folgt folgte *gefolgt | pa | pav
        thank | danken | p | p
        trust | vertrauen | p | px
        believe | glauben | p | p
        congratulate | gratulieren | p | p
        forgive forgave forgiven | verzeihen verzeiht verzieh verziehen | p | p
        threaten | drohen | p | p
        obey | gehorchen | pa | p
        serve | dienen | p | p
        listen +to | zu·hören | p | p
        harm | schaden | pax | pa
        contradict | widersprechen widerspricht widersprach widersprochen | p | px
        belong +to | gehören | tdvla | p
        escape +from | entkommen entkommt entkam *entkommen | pa | pa
        resemble | ähneln | p | p
        please | gefallen gefällt gefiel gefallen | xdtl | p
    """,
    "ditransitive": """
        give gave given | geben gibt gab gegeben | p | tfdxa
        show showed shown | zeigen | p | tdvlp
        send sent sent | schicken | p | td
        bring brought brought | bringen bringt brachte gebracht | p | tfda
        tell told told | erzählen | p | x
        offer | an·bieten bietet bot geboten | p | tfvx
        lend lent lent | leihen leiht lieh geliehen | p | tdv
        promise | versprechen verspricht versprach versprochen | p | tva
    """,
    "prepositional": """
        wait +for | warten +auf/A | pa | pvd
        talk +about | sprechen spricht sprach gesprochen +über/A | p | pxeld
        think thought thought +of | denken denkt dachte gedacht +an/A | p | pxe
        play +with | spielen +mit/D | pa | pat
        dream +of | träumen +von/D | pa | plve
        believe +in | glauben +an/A | p | px
        laugh +about | lachen +über/A | p | px
        work +on | arbeiten +an/D | p | xd
        depend +on | ab·hängen hängt hing gehangen +von/D | x | pxe
        begin began begun +with | beginnen beginnt begann begonnen +mit/D | p | xe
        doubt | zweifeln +an/D | p | x
        fight fought fought +against | kämpfen +gegen/A | pa | pax
    """,
    "clause": """
        say said said | sagen | p
        think thought thought | denken denkt dachte gedacht | p
        know knew known | wissen weiß wusste gewusst | p
        believe | glauben | p
        hope | hoffen | p
        see saw seen | sehen sieht sah gesehen | p
        claim | behaupten | p
        notice | bemerken | p
        hear heard heard | hören | p
        report | berichten | pd
        assume | vermuten | p
        admit admitted admitted | zu·geben gibt gab gegeben | p
        show showed shown | zeigen | dx
        fear | fürchten | p
        announce | an·kündigen | p
        write wrote written | schreiben schreibt schrieb geschrieben | p
        prove proved proven | beweisen beweist bewies bewiesen | px
    """,
    "question": """
        ask | fragen | p
        know knew known | wissen weiß wusste gewusst | p
        check | prüfen | p
    """,
    "infinitive": """
        try | versuchen | pa
        decide | beschließen beschließt beschloss beschlossen | p
        hope | hoffen | p
        plan planned planned | planen | p
        promise | versprechen verspricht versprach versprochen | p
        forget forgot forgotten | vergessen vergisst vergaß vergessen | p
        begin began begun | beginnen beginnt begann begonnen | pa
        threaten | drohen | p
    """,
    "predicate": """
        be was been | sein ist war *gewesen | patfdvlex
        become became become | werden wird wurde *geworden | patfvlex
        remain | bleiben bleibt blieb *geblieben | patvlx
    """,
    "location": """
        live | wohnen | p
        stand stood stood | stehen steht stand gestanden | patv
        sit sat sat | sitzen sitzt saß gesessen | pa
        lie lay lain | liegen liegt lag gelegen | atfd
        work | arbeiten | p
        play | spielen | pa
        sleep slept slept | schlafen schläft schlief geschlafen | pa
        wait | warten | pv
        stay | bleiben bleibt blieb *geblieben | pav
    """,
    "motion": """
        go went gone | gehen geht ging *gegangen | pa
        run ran run | laufen läuft lief *gelaufen | pa
        drive drove driven | fahren fährt fuhr *gefahren | pv
        travel | reisen reist reiste *gereist | p
        fly flew flown | fliegen fliegt flog *geflogen | p
        return | zurück·kehren kehrt kehrte *gekehrt | pa
        flee fled fled | fliehen flieht floh *geflohen | pa
        hurry | eilen eilt eilte *geeilt | p
        climb | klettern klettert kletterte *geklettert | pa
        crawl | kriechen kriecht kroch *gekrochen | pa
        march | marschieren marschiert marschierte *marschiert | p
        come came come | kommen kommt kam *gekommen | pa
    """,
}

# Adjectives: "english German[/stem before an ending] kinds".
ADJECTIVES = """
    old alt patdvlx; big groß patvlx; small klein patfvlx; new neu tdvlx; young jung pa; good gut pdtfx;
    beautiful schön patdvle; long lang tde; red rot tvf; black schwarz atv; white weiß atv; tired müde pa;
    important wichtig pdxe; happy glücklich p; sad traurig pd; expensive teuer/teur tvldf; strong stark pa;
    friendly freundlich pa; dark dunkel/dunkl tl; cold kalt lf; hungry hungrig pa; angry wütend pa; sick krank pa;
    strange seltsam patdvlex; dangerous gefährlich pavlex; famous berühmt pdl; green grün tvf; blue blau tv;
    broken kaputt tv; heavy schwer t; rich reich p; poor arm p; clever klug pa; quiet ruhig pal; loud laut paetv;
    fast schnell pav; slow langsam pav; ugly hässlich patvl; dirty schmutzig patvl; cheap billig tdvf;
    difficult schwierig pdxe; simple einfach tdx; interesting interessant pdlex; boring langweilig pdlex;
    modern modern tdvlx; lazy faul pa; brave tapfer pa; nervous nervös pa; proud stolz pa; honest ehrlich px;
    polite höflich p; shy schüchtern pa; curious neugierig pa; lonely einsam pl; patient geduldig p;
    careful vorsichtig pa; cruel grausam pe; generous großzügig p; jealous eifersüchtig p; drunk betrunken p;
    wild wild a; tame zahm a; thick dick td; thin dünn patd; wet nass patd; dry trocken tl; hot heiß f; fresh frisch f;
    sweet süß f; sour sauer/saur f; delicious lecker f; ripe reif f; empty leer tvl; full voll tvl; round rund tf;
    short kurz tde; wide breit tl; narrow schmal tl; bright hell tl; sharp scharf t; soft weich t; hard hart t;
    yellow gelb tvf; brown braun atv; gray grau atv; funny lustig pade; wrong falsch dx; secret geheim dxe;
    public öffentlich le; deep tief l; terrible schrecklich pdlex; wonderful wunderbar pdlexf;
    noble edel/edl p; useful nützlich tdx; useless nutzlos tdx; popular beliebt pdle; strict streng px;
    high hoch/hoh l; golden golden t; valuable wertvoll td; loyal treu pa; healthy gesund paf; blind blind pa;
    stubborn stur p; gloomy düster l; distant fern l; crazy verrückt px; modest bescheiden p; huge riesig atvl;
    tiny winzig atf; ancient uralt tdl; clean sauber tlv; grateful dankbar p; cheerful fröhlich p;
"""

# Intensifiers of any adjective, and intensifiers of predicates only ("is too old").
INTENSIFIERS = "very/RB | sehr; really/RB | wirklich; extremely/RB | äußerst; unusually/RB | ungewöhnlich"
PREDICATE_INTENSIFIERS = "too/RB | zu; quite/RB | ziemlich"

# Adverbs by their place in the clause: "word/TAG ... | German". Times are grouped by the tenses that they fit.
FREQUENCIES = "often/RB | oft; always/RB | immer; sometimes/RB | manchmal; never/RB | nie; rarely/RB | selten"
MANNERS = """
    quickly/RB | schnell; slowly/RB | langsam; quietly/RB | leise; carefully/RB | vorsichtig; secretly/RB | heimlich;
    patiently/RB | geduldig; alone/RB | allein; gladly/RB | gern
"""
COMMENTS = """
    unfortunately/RB | leider; hopefully/RB | hoffentlich; suddenly/RB | plötzlich; finally/RB | endlich;
    fortunately/RB | glücklicherweise; obviously/RB | offensichtlich; apparently/RB | anscheinend;
    probably/RB | wahrscheinlich; therefore/RB | deshalb; nevertheless/RB | trotzdem
"""
TIMES = {
    "present": "today/NN | heute; now/RB | jetzt; every/DT day/NN | jeden Tag; this/DT week/NN | diese Woche; "
    "every/DT year/NN | jedes Jahr; every/DT evening/NN | jeden Abend",
    "past": "yesterday/NN | gestern; last/JJ week/NN | letzte Woche; last/JJ year/NN | letztes Jahr; "
    "last/JJ month/NN | letzten Monat; last/JJ summer/NN | letzten Sommer",
    "future": "tomorrow/NN | morgen; soon/RB | bald; next/JJ week/NN | nächste Woche; next/JJ year/NN | nächstes Jahr; "
    "next/JJ month/NN | nächsten Monat",
}

# Modal verbs by the tense of the sentence: "English [to] | German singular plural".
MODALS = {
    "present": "can | kann können; must | muss müssen; will | wird werden; should | sollte sollten; "
    "want to | will wollen; have to | muss müssen",
    "past": "could | konnte konnten; wanted to | wollte wollten; had to | musste mussten",
}

# Subordinating conjunctions: "word/TAG | German". "when" depends on the tense. Some follow a comma in English.
SUBORDINATORS = {
    "present": "when/WRB | wenn; if/IN | falls; while/IN | während; before/IN | bevor; until/IN | bis",
    "past": "when/WRB | als; while/IN | während; before/IN | bevor; until/IN | bis",
}
REASONS = "because/IN | weil; although/IN | obwohl"
COORDINATORS = "and/CC | und; but/CC | aber"

# Quantifiers of plurals: "English/TAG German declension of the adjective".
QUANTIFIERS = """
    many/JJ viel strong; some/DT einig strong; several/JJ mehrer strong; all/DT all weak; both/DT beid weak;
    few/JJ wenig strong
"""
NUMERALS = "two zwei; three drei; four vier; five fünf; six sechs; ten zehn"
POSSESSIVES = "my mein; his sein; her ihr; our unser; their ihr"

# Prepositions: "English German case" (A accusative, D dative, G genitive).
PLACE_PREPOSITIONS = {"in": "in in D", "on": "on auf D", "at": "at an D"}
GOAL_PREPOSITIONS = {"in": "into in A", "on": "onto auf A", "at": "to zu D"}
NEAR_PREPOSITIONS = "behind hinter D; beside neben D; near bei D; under unter D"
EVENT_PREPOSITIONS = "after nach D; before vor D; during während G; despite trotz G"
COMPANY_PREPOSITIONS = "with mit D; without ohne A; for für A"
CONTRACTIONS = "in+dem im; in+das ins; an+dem am; an+das ans; von+dem vom; zu+dem zum; zu+der zur; bei+dem beim"

# Names: given names by sex, family names, and cities ("English[/German]").
WOMEN = "Anna Maria Julia Laura Sophie Emma Lena Clara Helena Paula Martha Nora Ida Greta Frieda Eva Ella Hanna Luise"
MEN = "Peter Thomas Martin Paul David Daniel Felix Jonas Max Oskar Anton Emil Karl Simon Jakob Lukas Hugo Otto Leo"
FAMILIES = """
    Müller Schmidt Schneider Fischer Weber Meyer Wagner Becker Schulz Hoffmann Schäfer Bauer Richter Klein Wolf Schröder
    Neumann Schwarz Zimmermann Braun Krüger Hartmann Lange Werner Krause Lehmann Köhler Maier Huber Kaiser Fuchs Peters
    Lang Scholz Möller Weiß Jung Hahn Schubert Vogel Friedrich Keller Günther Frank Berger Winkler Roth Beck Lorenz
    Baumann Franke Albrecht Schuster Simon Ludwig Böhm Winter Kraus Schumacher Krämer Vogt Stein Jäger Otto Sommer
    Groß Seidel Heinrich Brandt Haas Schreiber Graf Dietrich Ziegler Kuhn Kühn Pohl Engel Horn Busch Bergmann Voigt
"""
CITIES = """
    Berlin Hamburg Vienna/Wien Munich/München Paris London Cologne/Köln Zurich/Zürich Rome/Rom Prague/Prag Leipzig
    Dresden Moscow/Moskau Geneva/Genf Brussels/Brüssel Lisbon/Lissabon Warsaw/Warschau Athens/Athen Venice/Venedig
    Milan/Mailand Frankfurt Stuttgart Bremen Madrid Oslo Stockholm Copenhagen/Kopenhagen Budapest Nuremberg/Nürnberg
    Hanover/Hannover
"""
